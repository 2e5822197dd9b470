"""SQLite: the memory of the view `lrq_transmit`, through which SQL writes to the send log."""

from sqlalchemy import BigInteger, Column, Index, Integer, SmallInteger, Table, Text

from queues.database.tables.base import sqlite_metadata

#: SQLite: the numbers of destination sets from the view `lrq_transmit`, by their text as `given`. The newest 4,096
#: are kept. A set without its row here gets another number, and readers accept several numbers of a set.
sql_sets = Table(
    "lrq_sql_sets",
    sqlite_metadata,
    Column("id", Integer, primary_key=True),
    Column("client", Text, nullable=False),
    Column("given", Text, nullable=False),
    Column("destinations", Text, nullable=False),
    Column("number", BigInteger, nullable=False),
    Index("ix_lrq_sql_sets_client", "client", "given", unique=True),
    Index("ix_lrq_sql_sets_destinations", "destinations", "client"),
)

#: SQLite: one row about the last entry of the view `lrq_transmit`. By this row the view recognizes the next entry of
#: the same source transaction (docs/sql.md).
sql_written = Table(
    "lrq_sql_written",
    sqlite_metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("last_id", BigInteger, nullable=False),
    Column("transaction_id", BigInteger, nullable=False),
    Column("client", Text, nullable=False),
    Column("transaction_key", Text),
    Column("written_us", BigInteger, nullable=False),
    Column("changes_total", BigInteger, nullable=False),
    Column("slot", SmallInteger),
    Column("tag_set", BigInteger),
    Column("destinations", Text),
    Column("headers", Text),
)
