"""SQLite: the file of a member of a ring."""

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text

from queues.database.tables.base import sqlite_metadata

#: SQLite: one row in the file of a member of a ring: the token, the member's rank, and its promise. `step` and
#: `step_before` are the random numbers of the last two durable steps. Without the row the file does not count.
ring_member = Table(
    "lrq_ring_member",
    sqlite_metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("token", BigInteger, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("promised", BigInteger, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("step_before", BigInteger, nullable=False),
)

#: SQLite: the stores of a token's members that count, by rank.
ring_stores = Table(
    "lrq_ring_stores",
    sqlite_metadata,
    Column("rank", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
    Column("uid", BigInteger, nullable=False),
)

#: SQLite: the generations of a token with ticks in this log; tick number `seal` is the first one. The branch of
#: generation g has the number g + 1 in `lrq_branches`.
ring_generations = Table(
    "lrq_ring_generations",
    sqlite_metadata,
    Column("generation", BigInteger, primary_key=True, autoincrement=False),
    Column("seal", BigInteger, nullable=False),
)

#: SQLite: the requests of producers in a token's log, by the number of the request's last entry. The newest row of a
#: producer is its standing. Older rows stay while a later leader may replace ticks (docs/ring.md, "Producers").
ring_productions = Table(
    "lrq_ring_productions",
    sqlite_metadata,
    Column("entry", Integer, primary_key=True, autoincrement=False),
    Column("client", Text, nullable=False),
    Column("producer", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("process", BigInteger, nullable=False),
    Column("first_sequence", BigInteger, nullable=False),
    Column("branch", Text, nullable=False),
    Index("ix_lrq_ring_productions_producer", "client", "producer", "entry"),
)
