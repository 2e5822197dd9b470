"""Ranges of the log that an operator sends again."""

from sqlalchemy import BigInteger, Column, Table, Text

from queues.database.tables.base import metadata

#: The last order for each session: entries from `from_seq` to `to_seq` are sent again, as new entries. `sent_seq` is
#: the number up to which that is done. `entries` counts the new entries, and `left_out` those with an item key.
resends = Table(
    "lrq_resends",
    metadata,
    Column("client", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
    Column("order_id", Text, nullable=False),
    Column("from_seq", BigInteger, nullable=False),
    Column("to_seq", BigInteger, nullable=False),
    Column("sent_seq", BigInteger, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("left_out", BigInteger, nullable=False),
    Column("person", Text, nullable=False),
    Column("ordered_us", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("ended_us", BigInteger, nullable=False),
)
