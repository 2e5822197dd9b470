"""Groups of replicas: their members, and the active member as each side knows it."""

from sqlalchemy import BigInteger, Column, Integer, Table, Text

from queues.database.tables.base import metadata

#: The groups of replicas that the destination sets follow now, with their members in order.
replicas = Table(
    "lrq_replicas",
    metadata,
    Column("name", Text, primary_key=True),
    Column("member", Text, primary_key=True),
    Column("place", Integer, nullable=False),
)

#: The member of each group that serves, as the source has decided; each change has a higher generation.
active_members = Table(
    "lrq_active_members",
    metadata,
    Column("name", Text, primary_key=True),
    Column("member", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("changed_us", BigInteger, nullable=False),
)

#: The member of a group that serves, as the session of each client has told it last; `told_us` is the time of that.
told_members = Table(
    "lrq_told_members",
    metadata,
    Column("source", Text, primary_key=True),
    Column("client", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("member", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("told_us", BigInteger, nullable=False),
)
