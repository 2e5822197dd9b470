"""The send log on PostgreSQL: a tick is the difference of two database snapshots, in the order of commits.

See docs/design.md, "The tick".
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import finalize

from sqlalchemy import Connection, Engine

from queues.database import leases
from queues.database.leases import Lease
from queues.database.postgresql import rewriting
from queues.database.postgresql.truncation import BusyError
from queues.database.transactions import reading, writing
from queues.errors import DataLossError
from queues.positions import Tick, Visibility
from queues.replica_groups import Groups
from queues.send_log import reads as sql_log
from queues.send_log import replica_sets
from queues.send_log.logged_entries import large_entries, tick_rows, usual_entries
from queues.send_log.port import (
    Bounds,
    LoggedEntry,
    LogPiece,
    LogRow,
    Retention,
    SessionKey,
    Then,
    TickLimits,
    TickRows,
    TrimResult,
    ignore,
)
from queues.send_log.postgresql import reads as log_reads
from queues.send_log.postgresql import segments, tick_partitions, trim_look, unordered
from queues.send_log.postgresql.ticks import TickTaker
from queues.send_log.postgresql.trim_blockers import trim_blockers
from queues.send_log.postgresql.windows import NOTHING
from queues.send_log.replaced import MAX_ITEMS, LastIds, remaining
from queues.send_log.rotation import SegmentLimits
from queues.send_log.trim_blockers import TrimBlocker

_Done = TypeVar("_Done")


class PostgresqlLog:
    """See `queues.send_log.port.Log`."""

    def __init__(self, engine: Engine, limits: TickLimits) -> None:
        # Trimming and reading need statements that each see all earlier commits, independent of the database's default.
        engine = engine.execution_options(isolation_level="READ COMMITTED")
        self._engine = engine
        self._ticks = TickTaker(engine, limits)
        # No tick is taken while the sets follow other groups.
        self._taking = threading.Lock()
        # The transaction id from which the next run looks for unordered entries.
        self._looked_upto = 0
        finalize(self, self._ticks.close)

    def bounds(self) -> Bounds:
        """See the port."""
        return sql_log.bounds(self._engine)

    def take_tick(
        self, lease: Lease, last: Tick | None, meanwhile: Callable[[TickRows], None] = ignore
    ) -> TickRows | None:
        """See the port."""
        with self._taking:
            return self._ticks.take(lease, last, meanwhile)

    def regroup(self, lease: Lease, groups: Groups, then: Then) -> None:
        """See the port."""
        with self._taking:
            try:
                with writing(self._engine) as connection:
                    leases.check(connection, lease)
                    then(connection, replica_sets.regroup(connection, groups))
            finally:
                self._ticks.forget()

    def close(self) -> None:
        """See the port."""
        self._ticks.close()

    def ticks_after(self, seq: int, limits: TickLimits) -> list[Tick]:
        """See the port."""
        return sql_log.ticks_after(self._engine, seq, limits)

    def read(self, owed: SessionKey, ticks: Sequence[Tick]) -> list[list[LogRow]]:
        """See the port."""
        with sql_log.still_kept(self._engine, ticks[0]) as connection:
            return log_reads.read(connection, owed, *_marks(connection, ticks))

    def stream(self, owed: SessionKey, tick: Tick, skip: int, limits: TickLimits) -> Iterator[LogPiece]:
        """See the port. Each piece is a separate read, so a slow sink holds no snapshot open."""
        transaction = self._transaction(tick)
        last: LastIds = {}
        if tick.omits_replaced:
            with sql_log.still_kept(self._engine, tick) as connection:
                last = log_reads.last_ids(connection, owed, transaction, MAX_ITEMS)

        def read(after: int, skipped: int) -> list[LogRow]:
            with sql_log.still_kept(self._engine, tick) as connection:
                return log_reads.read_piece(connection, owed, transaction, after, skipped, limits)

        def skim(after: int) -> Sequence[tuple[int, str | None]]:
            with sql_log.still_kept(self._engine, tick) as connection:
                return log_reads.read_keys(connection, owed, transaction, after, limits)

        yield from remaining(0, skip, last, read, skim)

    def _transaction(self, tick: Tick) -> dict[str, Any]:
        """Find the only transaction of a large tick; raise `DataLossError` if its commit is missing."""
        with sql_log.still_kept(self._engine, tick) as connection:
            transaction = log_reads.transaction(connection, Visibility.parse(tick.mark))
        if transaction is None:
            raise DataLossError(
                f"the commit of the large transaction of tick {tick.uid} is lost: lrq_ticks refers to it, but "
                "lrq_log_commits lacks it; restore both tables from the same backup"
            )
        return transaction

    def read_all(self, ticks: Sequence[Tick], limits: TickLimits) -> Iterator[list[LoggedEntry]]:
        """See the port."""
        if ticks[0].is_large:
            piece = partial(log_reads.read_whole_piece, of=self._transaction(ticks[0]), limits=limits)
            yield from large_entries(self._engine, ticks[0], piece)
        else:
            yield usual_entries(self._engine, ticks, partial(_all_rows, ticks=ticks))

    def followed(self, ticks: Sequence[Tick]) -> list[TickRows]:
        """See the port."""
        return tick_rows(self._engine, ticks, partial(_all_rows, ticks=ticks))

    def rotate(
        self, lease: Lease, segment_bytes: int, segment_seconds: float, retention: Retention | None = None
    ) -> bool:
        """See the port."""
        limits = SegmentLimits(segment_seconds, segment_bytes).within(retention)
        with reading(self._engine) as connection:
            if not trim_look.may_rotate(connection, lease, limits):
                return False
        with writing(self._engine) as connection:
            leases.check(connection, lease)
            return segments.rotate(connection, limits, retention)

    def trim(self, lease: Lease, retention: Retention) -> TrimResult:
        """See the port. Tables in use by other transactions are left for the next run."""
        # The first run reads the whole log, and corrects the record of an earlier server.
        found = 0 if self._looked_upto else self._find_unordered(lease)
        with reading(self._engine) as connection:
            work = trim_look.look(connection, lease, self._looked_upto)
        if work.has_unordered:
            found += self._find_unordered(lease)
        else:
            self._looked_upto = work.ended_upto
        emptied = dropped = 0
        laggards: list[SessionKey] = []
        unknown: Counter[SessionKey] = Counter()
        busy: list[BusyError] = []
        while work.has_closed and (gone := self._try(lease, partial(segments.trim_one, retention=retention), busy)):
            emptied += 1
            laggards += gone.laggards
            dropped += gone.unordered
            unknown.update(gone.unknown)
        while (work.has_old_ticks or emptied) and self._try(lease, tick_partitions.empty_one, busy):
            pass
        if work.is_bloated:
            self._try(lease, rewriting.rewrite, busy)
        trimmed_seq = self.bounds().trimmed_seq if emptied else work.trimmed_seq
        blockers = self._blockers() if busy else ()
        return TrimResult(trimmed_seq, emptied, tuple(laggards), found, dropped, unknown, blockers)

    def _find_unordered(self, lease: Lease) -> int:
        """Record unordered entries that are new since the last run; return their number."""
        with writing(self._engine) as connection:
            leases.check(connection, lease)
            upto, found = unordered.find_new(connection, self._looked_upto)
        self._looked_upto = upto
        return found

    def _blockers(self) -> tuple[TrimBlocker, ...]:
        with reading(self._engine) as connection:
            return tuple(trim_blockers(connection))

    def _try(self, lease: Lease, empty: Callable[[Connection], _Done], busy: list[BusyError]) -> _Done | None:
        """Call *empty* in a separate transaction; return None and extend *busy* if others use its tables."""
        try:
            with writing(self._engine) as connection:
                leases.check(connection, lease)
                return empty(connection)
        except BusyError as error:
            busy.append(error)
            return None


def _marks(connection: Connection, ticks: Sequence[Tick]) -> tuple[Visibility, list[Visibility]]:
    """Return the visibility before the first of *ticks*, and the visibility of each."""
    before = sql_log.mark_before(connection, ticks[0]) or Visibility(window=NOTHING)
    return before, [Visibility.parse(tick.mark) for tick in ticks]


def _all_rows(connection: Connection, ticks: Sequence[Tick]) -> list[list[LogRow]]:
    return log_reads.read_all(connection, *_marks(connection, ticks))
