"""The send log: its head, its entries in their partitions, and the order of their commits."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    text,
)

from queues.database.tables.base import metadata, postgresql_metadata, sqlite_metadata

#: Partitions of the send log; segments use them in turn and are trimmed whole (docs/design.md, "Bloat and trim").
PARTITIONS: Final = 8

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


#: SQLite: one table for each partition. Ids come from `log_head`, in commit order, and are never used again.
sqlite_segments: Final = tuple(_sqlite_segment(partition) for partition in range(PARTITIONS))

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
