"""Peers as data, for servers with `topology = "table"`."""

from sqlalchemy import BigInteger, Column, Integer, Table, Text

from queues.database.tables.base import metadata

#: The peers of the site, for servers with `topology = "table"`. `endpoint` has several of them between commas.
#: `snapshot_endpoint` is empty if snapshots take the same way as the log.
peers = Table(
    "lrq_peers",
    metadata,
    Column("site", Text, primary_key=True),
    Column("endpoint", Text, nullable=False),
    Column("snapshot_endpoint", Text, nullable=False),
    Column("changed_us", BigInteger, nullable=False),
)

#: The groups of replicas beside `peers`: `members` are names between commas.
peer_replicas = Table(
    "lrq_peer_replicas",
    metadata,
    Column("name", Text, primary_key=True),
    Column("members", Text, nullable=False),
    Column("changed_us", BigInteger, nullable=False),
)

#: One row: each change of `peers` or `peer_replicas` raises the version in its transaction.
peers_version = Table(
    "lrq_peers_version",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    Column("changed_us", BigInteger, nullable=False),
)
