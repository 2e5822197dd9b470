"""Snapshots at the source: requests, providers, and the rows of each part."""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text

from queues.database.tables.base import metadata

snapshots = Table(
    "lrq_snapshots",
    metadata,
    Column("sync_id", Text, primary_key=True),
    Column("client", Text, nullable=False),
    Column("destination", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("owner", Text, nullable=False),
    # A build may serve several snapshots: `<sync_id>.<attempt>` of the first one, whose `sync_id` the rows have.
    Column("build", Text, nullable=False),
    Column("pinned_us", BigInteger, nullable=False),
    Column("branch", Text, nullable=False),
    Column("base_seq", BigInteger, nullable=False),
    Column("cut", Text, nullable=False),
    Column("expected_rows", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("byte_count", BigInteger, nullable=False),
    Column("checksum", BigInteger, nullable=False),
    Column("progress", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("retry_us", BigInteger, nullable=False),
    Column("requested_us", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    Index("ix_lrq_snapshots_client_state", "client", "state"),
    Index("ix_lrq_snapshots_build", "build"),
)

#: The committed parts of a snapshot: only rows with a (part, attempt) of this table are visible.
snapshot_parts = Table(
    "lrq_snapshot_parts",
    metadata,
    Column("sync_id", Text, primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("attempt", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("byte_count", BigInteger, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)

#: The rows of a part are numbered from 1, without gaps. A block holds `last_ord` - `row_count` + 1 to `last_ord`.
#: `block` is the wire's message `Block`, with `plain_size` bytes after unpacking. A block without rows, with `last_ord`
#: 0, tells that a task has written its whole part.
snapshot_blocks = Table(
    "lrq_snapshot_blocks",
    metadata,
    Column("sync_id", Text, primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False),
    Column("last_ord", BigInteger, primary_key=True, autoincrement=False),
    Column("row_count", Integer, nullable=False),
    Column("plain_size", BigInteger, nullable=False),
    Column("block", LargeBinary, nullable=False),
)

#: Clients with a provider of snapshots; `seen_us` is renewed while the provider runs.
snapshot_providers = Table(
    "lrq_snapshot_providers",
    metadata,
    Column("client", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("seen_us", BigInteger, nullable=False),
)
