"""Shards of a receive queue, beside the tables of its one subscriber."""

from sqlalchemy import BigInteger, Column, Integer, Table, Text

from queues.database.tables.base import metadata
from queues.database.tables.consumers import failure_columns

#: The shards of each client, by versions: `owners` has the shard of each slot, as numbers between spaces.
shard_maps = Table(
    "lrq_shard_maps",
    metadata,
    Column("client", Text, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("shards", Integer, nullable=False),
    Column("partitioner", Text, nullable=False),
    Column("owners", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
)

#: The maps in force in a queue: map `version` holds for transactions that begin after `after_seq`.
shard_changes = Table(
    "lrq_shard_changes",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("after_seq", BigInteger, nullable=False),
)

#: The position of each shard in a queue; a queue without rows here has one subscriber. The marks in `lrq_consumers` are
#: then the lowest position.
shard_marks = Table(
    "lrq_shard_marks",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("applied_total", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
)

#: Failed deliveries of single shards, as `lrq_consumer_failures`.
shard_failures = Table(
    "lrq_shard_failures",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    *failure_columns(),
)

#: The subscriptions that share the shards of a client.
shard_members = Table(
    "lrq_shard_members",
    metadata,
    Column("client", Text, primary_key=True),
    Column("member", Text, primary_key=True),
    Column("expires_us", BigInteger, nullable=False),
)
