"""The tables of a site, as SQLAlchemy metadata. Migrations create the tables; a test proves that both are equal.

Times are in microseconds since 1970 (UTC). A comment names the dialect of tables that only one dialect has.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    false,
    text,
)
from sqlalchemy.types import TypeEngine

#: Partitions of the send log; segments use them in turn and are trimmed whole (docs/design.md, "Bloat and trim").
PARTITIONS: Final = 8
#: PostgreSQL: partitions of ticks, which are truncated whole too.
TICK_PARTITIONS: Final = 8

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
    # Versions of lrq that need this schema or a later one can use the tables.
    Column("oldest_schema", Text, nullable=False, server_default="0002"),
)

branches = Table(
    "lrq_branches",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("branch", Text, nullable=False),
    Column("start_seq", BigInteger, nullable=False),
    Column("incarnation", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("inherited", Text, nullable=False, server_default=text("''")),
)

# --- source: the send log -------------------------------------------------------------------------------------

#: One row. SQLite: the current segment and the last id. Both dialects: the time of the last rotation, the trimmed end.
log_head = Table(
    "lrq_log_head",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("slot", SmallInteger, nullable=False),
    Column("last_id", BigInteger, nullable=False),
    Column("segment", BigInteger, nullable=False),
    Column("opened_us", BigInteger, nullable=False),
    Column("trimmed_seq", BigInteger, nullable=False),
    # Equal to `trimmed_seq` while every run of trim has recorded the destinations in `strangers`.
    Column("strangers_seq", BigInteger, nullable=False, server_default="0"),
    # The end of the newest tick at the last change of the groups of replicas.
    Column("regrouped_seq", BigInteger, nullable=False, server_default="0"),
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
        Column("headers", Text),
    ]


def _sqlite_segment(partition: int) -> Table:
    name = f"lrq_log_entries_{partition}"
    return Table(
        name,
        sqlite_metadata,
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("transaction_id", BigInteger, nullable=False),
        *_entry_columns(),
        Index(f"ix_{name}_tag_set", "tag_set", "id"),
    )


#: The tables that only SQLite has.
sqlite_metadata = MetaData(naming_convention=metadata.naming_convention)
#: The tables that only PostgreSQL has.
postgresql_metadata = MetaData(naming_convention=metadata.naming_convention)

#: SQLite: one table for each partition. Ids come from `log_head`, in commit order, and are never used again.
sqlite_segments: Final = tuple(_sqlite_segment(partition) for partition in range(PARTITIONS))

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

#: PostgreSQL: the partition `lrq_log_entries_<slot>` holds the rows with this `slot`.
log_entries = Table(
    "lrq_log_entries",
    postgresql_metadata,
    Column("slot", SmallInteger, nullable=False),
    Column("id", BigInteger, Identity(always=True, cache=32), nullable=False),
    Column("xid", BigInteger, nullable=False, server_default=text("(pg_current_xact_id())::text::bigint")),
    *_entry_columns(),
    # Several requests of producers may share a transaction, numbered from 0, which is NULL. See `LogRow.request`.
    Column("request", Integer),
    # The id allows reading a transaction of any size piece by piece.
    Index("ix_lrq_log_entries_xid", "xid", "id"),
    Index("ix_lrq_log_entries_tag_set", "tag_set", "xid"),
    postgresql_partition_by="LIST (slot)",
)

#: PostgreSQL: one row for each transaction, written at its commit by a deferred constraint trigger
#: (docs/design.md, "The order of commits").
log_commits = Table(
    "lrq_log_commits",
    postgresql_metadata,
    Column("slot", SmallInteger, nullable=False),
    Column("xid", BigInteger, nullable=False),
    Column("commit_seq", BigInteger, nullable=False),
    Column("committed_us", BigInteger, nullable=False),
    Column("timeline", Text, server_default=text("lower(left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))")),
    Index("ix_lrq_log_commits_xid", "xid"),
    Index("ix_lrq_log_commits_commit_seq", "commit_seq"),
    postgresql_partition_by="LIST (slot)",
)

#: PostgreSQL: helper of the ordering trigger after SET CONSTRAINTS. Each row is deleted within its own transaction.
waiting_places = Table(
    "lrq_waiting_places",
    postgresql_metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("waits", Boolean, nullable=False),
)

#: PostgreSQL: counts of unordered entries, which have no place in the order of commits, for each client. `waiting`
#: entries are still in the log; `dropped` entries were trimmed with their segments. `lrq status` shows both.
unordered = Table(
    "lrq_unordered",
    postgresql_metadata,
    Column("client", Text, primary_key=True),
    Column("waiting", BigInteger, nullable=False),
    Column("dropped", BigInteger, nullable=False),
    Column("seen_us", BigInteger, nullable=False),
)

#: The dictionary of destination sets, with every set that occurs in a tick. A `shared` set is never deleted, because
#: rows may hold only its number; the number of shared sets is limited.
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

#: The source's record of each session; the sink's receive state is the truth. `lost_seq` is the end of the newest
#: trimmed tick with unacknowledged entries for the session. `replaced_total` counts entries that were not sent,
#: because a later entry of the same tick replaced them. The subscriber has applied the log up to `applied_seq` (NULL:
#: unknown). The session tells its sink the lease's generation plus `lead`; `leaps` counts the last changes of
#: `lead`, the newest of them at `leaped_us`. `released`: trim keeps no entry for the session. `window_percent` is the
#: used share of the window, in steps of ten.
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
    Column("applied_seq", BigInteger),
    Column("replaced_total", BigInteger, nullable=False, server_default=text("0")),
    Column("lead", BigInteger, nullable=False, server_default=text("0")),
    Column("leaps", Integer, nullable=False, server_default=text("0")),
    Column("leaped_us", BigInteger, nullable=False, server_default=text("0")),
    Column("released", Boolean, nullable=False, server_default=text("false")),
    Column("window_percent", Integer, nullable=False, server_default=text("0")),
)

#: The links with a wish of an operator; a link without a row runs.
links = Table(
    "lrq_links",
    metadata,
    Column("client", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
    Column("wish", Text, nullable=False),
    Column("asked_us", BigInteger, nullable=False),
    Column("ended_us", BigInteger, nullable=False, server_default="0"),
)

#: One row. `number` counts the changes of `links`. PostgreSQL has it in the sequence `lrq_link_change` too, which a
#: transaction with an old snapshot reads. SQLite: no receive queue gets an id up to `last_queue_id` again.
link_changes = Table(
    "lrq_link_changes",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
    Column("last_queue_id", BigInteger, nullable=False),
)

#: One row, written by the server: the names of its peers and clients, each list as one text. Empty `clients` mean every
#: client. With `known_only`, senders refuse every other destination.
known_sites = Table(
    "lrq_known_sites",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("peers", Text, nullable=False),
    Column("clients", Text, nullable=False),
    Column("known_only", Boolean, nullable=False),
)

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

#: The number of entries that were trimmed for each destination that was no peer, until an operator forgets it.
dropped_entries = Table(
    "lrq_dropped_entries",
    metadata,
    Column("client", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
    Column("entries", BigInteger, nullable=False),
    Column("dropped_us", BigInteger, nullable=False),
)

#: The destinations without a session whose entries were trimmed: see `queues.send_log.strangers`.
strangers = Table(
    "lrq_strangers",
    metadata,
    Column("client", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
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
#: `block` is the wire's message `Block`, with `plain_size` bytes after unpacking.
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

# --- both sides: ownership ------------------------------------------------------------------------------------

leases = Table(
    "lrq_leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
)

#: The running servers of the site; a row counts until `expires_us`. `endpoints`: where it listens, between commas.
servers = Table(
    "lrq_servers",
    metadata,
    Column("server", Text, primary_key=True),
    Column("endpoints", Text, nullable=False),
    Column("started_us", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
    # The place of the server's peers, their version, and the reason why newer peers are not used.
    Column("topology", Text, nullable=False, server_default=text("''")),
    Column("topology_version", BigInteger, nullable=False, server_default="0"),
    Column("topology_trouble", Text, nullable=False, server_default=text("''")),
)

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

#: The last server that led each range of sessions, and the generation under which it leads.
ranges = Table(
    "lrq_ranges",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("server", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
)

#: One row: the newest generation of the site, and the number of its ranges. No server has fixed a number of 0.
generations = Table(
    "lrq_generations",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("ranges", Integer, nullable=False),
)

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

#: Small tables with frequent updates; see `queues.database.postgresql.rewriting`.
REWRITTEN: Final = (sessions, snapshot_providers, leases)
#: Rewritten like these, but read only by servers, and never in a transaction with one snapshot.
REWRITTEN_UNKEPT: Final = (servers,)

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

#: The receive state of each queue. Only the sink updates it, so a slow listener never blocks the sink. One row
#: for each queue; each update raises `version`: see `queues.receive.newest`.
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
    # Bytes of all log entries received; less `consumers.applied_bytes`, the bytes of those not applied yet.
    Column("bytes_total", BigInteger, nullable=False, server_default="0"),
    # The stream has ended here if this equals `seq`; -1 for no end.
    Column("ended_seq", BigInteger, nullable=False, server_default="-1"),
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

#: The branches of each source, as told in the last negotiation (`queues.lineage`).
receive_branches = Table(
    "lrq_receive_branches",
    metadata,
    Column("client", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("branch", Text, nullable=False),
    Column("timeline", Text, nullable=False),
    Column("inherited", Text, nullable=False),
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

#: The last order for a replay of each queue: entries from `from_seq` on, or those committed since `since_us`, come
#: again. `state` and `outcome` are those of the order (`queues.receive.replays`).
replays = Table(
    "lrq_replays",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("order_id", Text, nullable=False),
    Column("from_seq", BigInteger, nullable=False),
    Column("branch", Text, nullable=False),
    Column("since_us", BigInteger, nullable=False),
    Column("undo", Boolean, nullable=False),
    Column("person", Text, nullable=False),
    Column("ordered_us", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("ended_us", BigInteger, nullable=False),
)

#: Log entries as received: `block` is the wire's `Block` of one tick, or of a part of one. Row k of a block, from 0,
#: has the number `start_seq` + k + 1. The `row_count` rows up to `end_seq` are in the queue. `tick_seq` is the number
#: before the tick: transactions are numbered from there. The rows count `size` bytes in `bytes_total`.
receive_blocks = Table(
    "lrq_receive_blocks",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("end_seq", BigInteger, primary_key=True, autoincrement=False),
    Column("row_count", BigInteger, nullable=False),
    Column("start_seq", BigInteger, nullable=False),
    Column("tick_seq", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("block", LargeBinary, nullable=False),
)

#: Rows of snapshots as received: `block` is the wire's `Block` of `row_count` rows, `plain_size` its size unpacked.
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

#: The subscriber's marks of each receive queue. Only the subscriber updates them, in the listener's transaction. One
#: row for each queue; each update raises `version`: see `queues.receive.newest`.
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
    # `undoes`: the subscriber can undo applied entries. `back_seq`: it must undo back to this sequence; -1 for none.
    Column("undoes", Boolean, nullable=False),
    Column("back_seq", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    Column("applied_bytes", BigInteger, nullable=False, server_default="0"),
    # The end of the stream that the listener was told last; -1 for none.
    Column("ended_seq", BigInteger, nullable=False, server_default="-1"),
)


def _failure_columns() -> list[Column[object]]:
    """Return the columns about an error of the listener; only `error` beside them may hold a part of a payload."""
    return [
        Column("error_class", Text, nullable=False, server_default=text("''")),
        Column("place", Text, nullable=False, server_default=text("''")),
        Column("trace", Text, nullable=False, server_default=text("''")),
        # The time of the first failure in a row; 0 for an unknown one.
        Column("first_us", BigInteger, nullable=False, server_default="0"),
    ]


#: Failed deliveries; written outside the listener's transaction, which is rolled back.
consumer_failures = Table(
    "lrq_consumer_failures",
    metadata,
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    *_failure_columns(),
)

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
    *_failure_columns(),
)

#: The subscriptions that share the shards of a client.
shard_members = Table(
    "lrq_shard_members",
    metadata,
    Column("client", Text, primary_key=True),
    Column("member", Text, primary_key=True),
    Column("expires_us", BigInteger, nullable=False),
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
    Column("headers", Text),
    Column("partition_key", Text),
    # Only the first row of a source transaction has its traceback.
    *_failure_columns(),
    # The time of the last failure, 0 for an unknown one, and the number of all failures.
    Column("last_us", BigInteger, nullable=False, server_default="0"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Index("ix_lrq_parked_entries_queue_id", "queue_id"),
)

# --- both sides: operators -----------------------------------------------------------------------------------

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

# --- views for people and monitors ----------------------------------------------------------------------------

#: Views, which a role may read without a right on the tables (docs/sql.md).
views_metadata = MetaData()

#: The lag of each link, one row for each session and for each receive queue.
lag_view = Table(
    "lrq_lag",
    views_metadata,
    Column("direction", Text),
    Column("client", Text),
    Column("peer", Text),
    Column("state", Text),
    Column("reason", Text),
    Column("entries", BigInteger),
    Column("age_seconds", Double),
    Column("idle_seconds", Double),
)

#: The links of this source, with the wish of an operator; times are text on SQLite.
link_states_view = Table(
    "lrq_link_states",
    views_metadata,
    Column("client", Text),
    Column("destination", Text),
    Column("wish", Text),
    Column("state", Text),
    Column("reason", Text),
    Column("branch", Text),
    Column("acked_seq", BigInteger),
    Column("applied_seq", BigInteger),
    Column("updated_at", Text),
    Column("asked_at", Text),
    Column("ended_at", Text),
)
