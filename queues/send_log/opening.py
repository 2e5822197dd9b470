"""Open the send log of a database; only this module chooses the implementations by dialect."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sqlalchemy import Connection, Engine, Select

from queues.database import dialects
from queues.database.dialect import Dialect
from queues.send_log.outbox import Write
from queues.send_log.port import Log, OwedSize, Retention, TickLimits
from queues.send_log.postgresql import called_outbox
from queues.send_log.postgresql import commit_watch as postgresql_commit_watch
from queues.send_log.postgresql import outbox as postgresql_outbox
from queues.send_log.postgresql import reads as postgresql_reads
from queues.send_log.postgresql import segments as postgresql_segments
from queues.send_log.postgresql import trim_blockers as postgresql_trim_blockers
from queues.send_log.postgresql import uncommitted as postgresql_uncommitted
from queues.send_log.postgresql.log import PostgresqlLog
from queues.send_log.postgresql.producers import PostgresqlStore
from queues.send_log.producers import Store
from queues.send_log.segments import Verdict
from queues.send_log.sqlite import commit_watch as sqlite_commit_watch
from queues.send_log.sqlite import outbox as sqlite_outbox
from queues.send_log.sqlite import reads as sqlite_reads
from queues.send_log.sqlite import segments as sqlite_segments
from queues.send_log.sqlite import uncommitted as sqlite_uncommitted
from queues.send_log.sqlite.log import SqliteLog
from queues.send_log.sqlite.producers import SqliteStore
from queues.send_log.trim_blockers import TrimBlocker
from queues.send_log.uncommitted import Read, UncommittedEntry, UncommittedRow, with_destinations
from queues.send_log.wakeup import Readable


class CommitWatch(Protocol):
    """Tells cheaply whether a database may have new commits. Not for several threads."""

    def changed(self) -> bool:
        """Return whether others may have committed since the last call; True at the first call.

        Raises `StoreUnavailableError` if the database does not answer.
        """
        ...

    def close(self) -> None:
        """Release the connection."""
        ...


class LogWatch(CommitWatch, Protocol):
    """Tells cheaply whether a send log may have new entries, and asks transactions for notifications."""

    @property
    def is_notified(self) -> bool:
        """Whether transactions that transmit notify this watch; see `wait_for_notify`."""
        ...

    @property
    def notifiers(self) -> Sequence[Readable]:
        """The objects that become readable with a notification."""
        ...

    def wait_for_notify(self) -> bool:
        """Ask later transactions to notify this watch, until `end_notify`; return False if that is not possible now.

        Earlier commits send no notification: call `changed` once more afterwards. A transaction in a two-phase commit
        never sends one.
        """
        ...

    def end_notify(self) -> None:
        """End the notifications, because they make transmitting slower. May be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class SegmentReads:
    """The reads for a trim plan: the current segment, the verdict on a segment, the times of its entries.

    `keep` prevents the trimming of segments until the transaction ends. `blockers` returns transactions that have
    prevented it for minutes.
    """

    current: Callable[[Connection], int]
    verdict: Callable[[Connection, int, Retention], Verdict | None]
    written: Callable[[int], Select[int]]
    keep: Callable[[Connection], None]
    blockers: Callable[[Connection], Sequence[TrimBlocker]]


@dataclass(frozen=True, slots=True)
class _Store:
    """The implementations for one database."""

    write: Write
    log: Callable[[Engine, TickLimits], Log]
    commit_watch: Callable[[Engine], CommitWatch]
    log_watch: Callable[[Engine], LogWatch]
    segments: SegmentReads
    measure: Callable[[Connection], OwedSize]
    uncommitted: Callable[[Read, int], Sequence[UncommittedRow]]
    producers: Callable[[Engine, TickLimits], Store]


_STORES: Final[Mapping[Dialect, _Store]] = {
    dialects.SQLITE: _Store(
        sqlite_outbox.write,
        SqliteLog,
        sqlite_commit_watch.DataVersion,
        sqlite_commit_watch.LogVersion,
        SegmentReads(
            sqlite_segments.current,
            sqlite_segments.verdict,
            sqlite_segments.written,
            sqlite_segments.keep,
            lambda _: (),
        ),
        sqlite_reads.measure,
        sqlite_uncommitted.uncommitted_rows,
        SqliteStore,
    ),
    dialects.POSTGRESQL: _Store(
        postgresql_outbox.write,
        PostgresqlLog,
        postgresql_commit_watch.SnapshotWatch,
        postgresql_commit_watch.PostgresqlLogWatch,
        SegmentReads(
            postgresql_segments.current,
            postgresql_segments.verdict,
            postgresql_segments.written,
            postgresql_segments.keep,
            postgresql_trim_blockers.trim_blockers,
        ),
        postgresql_reads.measure,
        postgresql_uncommitted.uncommitted_rows,
        PostgresqlStore,
    ),
}


def outbox(connection: Connection) -> Write:
    """Return the writer of entries for this connection; raise `ConfigurationError` for an unknown database."""
    if dialects.find(connection) is dialects.POSTGRESQL and not dialects.has_own_statements(connection):
        return called_outbox.write
    return _STORES[dialects.of(connection)].write


def open_log(engine: Engine, limits: TickLimits | None = None) -> Log:
    """Return the send log of *engine*'s database; *limits* are those of one tick."""
    return _STORES[dialects.of(engine)].log(engine, limits or TickLimits())


def watch_commits(engine: Engine) -> CommitWatch:
    """Return a watch for commits to *engine*'s database."""
    return _STORES[dialects.of(engine)].commit_watch(engine)


def watch_log(engine: Engine) -> LogWatch:
    """Return a watch for new entries in the send log of *engine*'s database."""
    return _STORES[dialects.of(engine)].log_watch(engine)


def open_store(engine: Engine, limits: TickLimits | None = None) -> Store:
    """Return the store of producers' requests in *engine*'s database; *limits* are those of one tick."""
    return _STORES[dialects.of(engine)].producers(engine, limits or TickLimits())


def segment_reads(connection: Connection) -> SegmentReads:
    """Return the reads of segments for the connection's database."""
    return _STORES[dialects.of(connection)].segments


def measure_of(connection: Connection) -> OwedSize:
    """Return the measure of sessions' entries, for the transaction of *connection*."""
    return _STORES[dialects.of(connection)].measure(connection)


def uncommitted(dialect: Dialect, read: Read, *, first_id: int = 1) -> list[UncommittedEntry]:
    """Return the entries that the open transaction behind *read* has written so far, in order.

    Entries of a rolled-back savepoint are not among them. *first_id* is the first id of the transaction; only
    a SQLite database in memory needs it.
    """
    return with_destinations(read, _STORES[dialect].uncommitted(read, first_id))
