"""Requests of producers and epochs of Spark, stored once."""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text

from queues.database.tables.base import metadata

#: The last request of each producer that was stored, and the token of its transaction. `request` is that of its rows.
producers = Table(
    "lrq_producers",
    metadata,
    Column("client", Text, primary_key=True),
    Column("producer", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("token", Text, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    Column("process", BigInteger, nullable=False, server_default="0"),
    Column("first_sequence", BigInteger, nullable=False, server_default="0"),
    Column("request", Integer, nullable=False, server_default="0"),
)

#: The parts that Spark's tasks have written for the log and no transaction has moved there completely.
#: `producer` and `sequence` name the epoch, as in `lrq_producers`. `place` counts the parts of a decided epoch from 1
#: and is 0 before the decision.
log_staging = Table(
    "lrq_log_staging",
    metadata,
    Column("attempt", Text, primary_key=True),
    Column("client", Text, nullable=False),
    Column("producer", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("place", Integer, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    Index("ix_lrq_log_staging_producer", "client", "producer"),
)

#: The rows of a part, in their order; `block` is a `ProduceRequest` of the wire with `row_count` messages.
log_staged_blocks = Table(
    "lrq_log_staged_blocks",
    metadata,
    Column("attempt", Text, primary_key=True),
    Column("ord", Integer, primary_key=True, autoincrement=False),
    Column("row_count", Integer, nullable=False),
    Column("block", LargeBinary, nullable=False),
)
