"""Views for people and monitors."""

from sqlalchemy import BigInteger, Column, Double, Table, Text

from queues.database.tables.base import views_metadata

#: The lag of each link, one row for each session and for each receive queue.
lag_view = Table(
    "lrq_lag",
    views_metadata,
    Column("direction", Text),
    Column("client", Text),
    Column("peer", Text),
    Column("state", Text),
    Column("reason", Text),
    Column("entries", BigInteger),
    Column("age_seconds", Double),
    Column("idle_seconds", Double),
)

#: The links of this source, with the wish of an operator; times are text on SQLite.
links_view = Table(
    "lrq_links",
    views_metadata,
    Column("client", Text),
    Column("destination", Text),
    Column("wish", Text),
    Column("state", Text),
    Column("reason", Text),
    Column("branch", Text),
    Column("acked_seq", BigInteger),
    Column("applied_seq", BigInteger),
    Column("updated_at", Text),
    Column("asked_at", Text),
    Column("ended_at", Text),
)
