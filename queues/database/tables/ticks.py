"""The ticks of the send log."""

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Index, SmallInteger, Table, Text, false

from queues.database.tables.base import metadata

#: PostgreSQL: partitions of ticks, which are truncated whole too.
TICK_PARTITIONS: Final = 8

#: PostgreSQL: the partition `lrq_ticks_<slot>` holds the ticks with this `slot`; see `queues.send_log.ticks`.
ticks = Table(
    "lrq_ticks",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("slot", SmallInteger, primary_key=True, autoincrement=False),
    Column("uid", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("branch", Text, nullable=False),
    Column("start_seq", BigInteger, nullable=False),
    Column("end_seq", BigInteger, nullable=False),
    Column("bytes_total", BigInteger, nullable=False),
    Column("is_large", Boolean, nullable=False),
    Column("mark", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    # False in the ticks of earlier versions, which numbered and sent the replaced rows of a large tick too.
    Column("omits_replaced", Boolean, nullable=False, server_default=false()),
    Index("ix_lrq_ticks_end_seq", "end_seq"),
    postgresql_partition_by="LIST (slot)",
)
