"""The tables of a site, as SQLAlchemy metadata. Migrations create them; a test proves that both are equal.

Times are microseconds since 1970 (UTC). What only one dialect needs says so.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.types import TypeEngine

#: Segments of the log-entry queue; they rotate and are emptied whole (DESIGN 8).
SLOTS: Final = 8
#: PostgreSQL: generations of ticks, which are emptied whole too.
TICK_SLOTS: Final = 8

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: SQLite gives rowids only to a column declared INTEGER.
Number: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")

site = Table(
    "lrq_site",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("site_id", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
)

branches = Table(
    "lrq_branches",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("branch", Text, nullable=False),
    Column("start_seq", BigInteger, nullable=False),
    Column("incarnation", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
)

# --- source: the log-entry queue ------------------------------------------------------------------------------

#: One row: where SQLite writes and what it numbered last; on every dialect, what trimming has let go.
log_head = Table(
    "lrq_log_head",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("slot", SmallInteger, nullable=False),
    Column("last_id", BigInteger, nullable=False),
    Column("segment", BigInteger, nullable=False),
    Column("opened_us", BigInteger, nullable=False),
    Column("trimmed_seq", BigInteger, nullable=False),
)


def _entry_columns() -> list[Column[object]]:
    return [
        Column("client", Text, nullable=False),
        Column("tag_set", BigInteger, nullable=False),
        Column("destinations", Text),
        Column("item_key", Text),
        Column("partition_key", Text),
        Column("created_us", BigInteger, nullable=False),
        Column("payload", LargeBinary, nullable=False),
    ]


def _sqlite_segment(slot: int) -> Table:
    name = f"lrq_log_entries_{slot}"
    return Table(
        name,
        sqlite_metadata,
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("transaction_id", BigInteger, nullable=False),
        *_entry_columns(),
        Index(f"ix_{name}_tag_set", "tag_set", "id"),
    )


#: What only SQLite has.
sqlite_metadata = MetaData(naming_convention=metadata.naming_convention)
#: What only PostgreSQL has.
postgresql_metadata = MetaData(naming_convention=metadata.naming_convention)

#: SQLite: one table a slot; ids come from `log_head`, in commit order, and never come back.
sqlite_segments: Final = tuple(_sqlite_segment(slot) for slot in range(SLOTS))

#: PostgreSQL: partitioned by slot; the partitions are `lrq_log_entries_<slot>`.
log_entries = Table(
    "lrq_log_entries",
    postgresql_metadata,
    Column("slot", SmallInteger, nullable=False),
    Column("id", BigInteger, Identity(always=True, cache=32), nullable=False),
    Column("xid", BigInteger, nullable=False, server_default=text("(pg_current_xact_id())::text::bigint")),
    *_entry_columns(),
    # With the id, so that a transaction of any size is read piece by piece.
    Index("ix_lrq_log_entries_xid", "xid", "id"),
    Index("ix_lrq_log_entries_tag_set", "tag_set", "xid"),
    postgresql_partition_by="LIST (slot)",
)

#: PostgreSQL: one row per transaction, written at its commit by a deferred constraint trigger (DESIGN 2).
log_commits = Table(
    "lrq_log_commits",
    postgresql_metadata,
    Column("slot", SmallInteger, nullable=False),
    Column("xid", BigInteger, nullable=False),
    Column("commit_seq", BigInteger, nullable=False),
    Column("committed_us", BigInteger, nullable=False),
    Index("ix_lrq_log_commits_xid", "xid"),
    Index("ix_lrq_log_commits_commit_seq", "commit_seq"),
    postgresql_partition_by="LIST (slot)",
)

#: The dictionary of destination sets. Every set that a tick holds is here; the `shared` ones stay for ever (their
#: number is bounded), because rows may carry the number alone.
tag_sets = Table(
    "lrq_tag_sets",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("client", Text, nullable=False),
    Column("destinations", Text, nullable=False),
    Column("shared", Boolean, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
)

tag_set_members = Table(
    "lrq_tag_set_members",
    metadata,
    Column("client", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
    Column("tag_set", BigInteger, primary_key=True, autoincrement=False),
    Index("ix_lrq_tag_set_members_tag_set", "tag_set"),
)

#: PostgreSQL: partitioned by slot; the partitions are `lrq_ticks_<slot>`. For `slot` see `queues.log.tick_slots`.
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
    Index("ix_lrq_ticks_end_seq", "end_seq"),
    postgresql_partition_by="LIST (slot)",
)

#: What this source knows of each of its sessions; the sink's own marks are the truth. `lost_seq` is the end of the
#: newest tick that was trimmed although it held something for this session that was not acknowledged.
sessions = Table(
    "lrq_sessions",
    metadata,
    Column("client", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("acked_seq", BigInteger, nullable=False),
    Column("cut", Text, nullable=False),
    Column("lost_seq", BigInteger, nullable=False),
    Column("transferred_rows", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
)

# --- source: snapshots ----------------------------------------------------------------------------------------

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
    # Which build serves it: `<sync_id>.<attempt>` of the first of those that it serves, under whose id the rows are.
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

#: The parts of a snapshot that were committed: only rows of a (part, attempt) named here are visible.
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

#: Rows of a part are numbered from 1, without gaps: a block holds `last_ord` - `row_count` + 1 to `last_ord`, as the
#: wire's message `Block`, and unpacks to `plain_size` bytes.
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

#: Clients whose application offers snapshots here; `seen_us` is renewed while it runs.
snapshot_providers = Table(
    "lrq_snapshot_providers",
    metadata,
    Column("client", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("seen_us", BigInteger, nullable=False),
)

# --- both sides: ownership ------------------------------------------------------------------------------------

leases = Table(
    "lrq_leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
)

#: Their rows are updated again and again, and are few: PostgreSQL's are written anew now and then.
REWRITTEN: Final = (sessions, snapshot_providers, leases)

# --- sink -----------------------------------------------------------------------------------------------------

receive_queues = Table(
    "lrq_receive_queues",
    metadata,
    Column("queue_id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("client", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("tag", Text, nullable=False),
    Column("registered_us", BigInteger, nullable=False),
)

#: The writer's marks of one receive queue; it alone updates them, so a long listener never blocks it. One row a queue:
#: for `version` see `queues.receive.newest`.
receive_marks = Table(
    "lrq_receive_marks",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("branch", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("boundary_seq", BigInteger, nullable=False),
    Column("cut", Text, nullable=False),
    Column("staging_sync_id", Text, nullable=False),
    Column("staging_rows", BigInteger, nullable=False),
    Column("staging_bytes", BigInteger, nullable=False),
    Column("staging_checksum", BigInteger, nullable=False),
    Column("sync_id", Text, nullable=False),
    Column("sync_rows", BigInteger, nullable=False),
    Column("base_seq", BigInteger, nullable=False),
    Column("entries_total", BigInteger, nullable=False),
    Column("duplicates_total", BigInteger, nullable=False),
    Column("source_seq", BigInteger, nullable=False),
    Column("source_us", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
)

receive_headers = Table(
    "lrq_receive_headers",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("branch", Text, nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("mark", Text, nullable=False),
)

receive_entries = Table(
    "lrq_receive_entries",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("transaction_seq", BigInteger, nullable=False),
    Column("committed_us", BigInteger, nullable=False),
    Column("item_key", Text),
    Column("payload", LargeBinary, nullable=False),
)

#: Rows of snapshots as they came: `block` is the wire's `Block` of so many rows, `plain_size` its size unpacked.
receive_snapshot_blocks = Table(
    "lrq_receive_snapshot_blocks",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("sync_id", Text, primary_key=True),
    Column("last_row", BigInteger, primary_key=True, autoincrement=False),
    Column("row_count", BigInteger, nullable=False),
    Column("plain_size", BigInteger, nullable=False),
    Column("block", LargeBinary, nullable=False),
)

#: The subscriber's marks of one receive queue; it alone updates them, in the listener's transaction. One row a queue:
#: for `version` see `queues.receive.newest`.
consumers = Table(
    "lrq_consumers",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("phase", Text, nullable=False),
    Column("sync_id", Text, nullable=False),
    Column("row_no", BigInteger, nullable=False),
    Column("branch", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("applied_total", BigInteger, nullable=False),
    # Whether the subscriber can undo what it has applied, and back to where it has to; -1 for nowhere.
    Column("undoes", Boolean, nullable=False),
    Column("back_seq", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
)

#: How delivery stands where it does not get on; outside the listener's transaction, which is rolled back.
consumer_failures = Table(
    "lrq_consumer_failures",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
)

parked_entries = Table(
    "lrq_parked_entries",
    metadata,
    Column("id", Number, primary_key=True),
    Column("queue_id", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("transaction_seq", BigInteger, nullable=False),
    Column("committed_us", BigInteger, nullable=False),
    Column("item_key", Text),
    Column("payload", LargeBinary, nullable=False),
    Column("error", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("parked_us", BigInteger, nullable=False),
    Index("ix_lrq_parked_entries_queue_id", "queue_id"),
)
