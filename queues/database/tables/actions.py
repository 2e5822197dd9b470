"""Actions of operators."""

from sqlalchemy import BigInteger, Column, Index, Table, Text

from queues.database.tables.base import metadata

#: The actions of operators on this site, such as a parked transaction that was discarded; the oldest are deleted.
actions = Table(
    "lrq_actions",
    metadata,
    Column("action_id", Text, primary_key=True),
    Column("at_us", BigInteger, nullable=False),
    Column("person", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Index("ix_lrq_actions_at_us", "at_us"),
)
