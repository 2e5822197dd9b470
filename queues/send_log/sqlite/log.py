"""The send log on SQLite. With one writer at a time, ids are in commit order, so a tick ends at an id."""

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sqlalchemy import Engine

from queues.database import leases
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.positions import Tick, Visibility
from queues.replica_groups import Groups
from queues.send_log import logged_entries, replica_sets
from queues.send_log import reads as sql_log
from queues.send_log.destination_sets import SetDictionary
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
from queues.send_log.replaced import MAX_ITEMS, remaining
from queues.send_log.rotation import SegmentLimits
from queues.send_log.sqlite import gone_back, reads, segments
from queues.send_log.sqlite.ticks import draft_after
from queues.send_log.ticks import insert_tick


class SqliteLog:
    """See `queues.send_log.port.Log`."""

    def __init__(self, engine: Engine, limits: TickLimits) -> None:
        self._engine = engine
        self._limits = limits
        self._dictionary = SetDictionary()
        # No tick is taken while the sets follow other groups.
        self._taking = threading.Lock()

    def bounds(self) -> Bounds:
        """See the port."""
        return sql_log.bounds(self._engine)

    def take_tick(
        self,
        lease: Lease,
        last: Tick | None,
        meanwhile: Callable[[TickRows], None] = ignore,  # noqa: ARG002 - the commit leaves no time in between
    ) -> TickRows | None:
        """See the port. Reading precedes the write lock, because committed rows never change."""
        with self._taking:
            return self._take(lease, last)

    def _take(self, lease: Lease, last: Tick | None) -> TickRows | None:
        after = Visibility.parse(last.mark).high if last else 0
        with reading(self._engine) as connection:
            is_whole = last is None or gone_back.holds(connection, last)
            closing = draft_after(connection, after, self._limits) if is_whole else None
        if last is not None and not is_whole and (error := gone_back.begin_again(self._engine, lease, last)):
            raise error
        if closing is None:
            return None
        try:
            with writing(self._engine) as connection:
                leases.check(connection, lease)
                return insert_tick(connection, lease, last, closing, self._dictionary, partitioned=False)
        except BaseException:
            self._dictionary.forget()
            raise

    def regroup(self, lease: Lease, groups: Groups, then: Then) -> None:
        """See the port."""
        with self._taking:
            try:
                with writing(self._engine) as connection:
                    leases.check(connection, lease)
                    then(connection, replica_sets.regroup(connection, groups))
            finally:
                self._dictionary.forget()

    def close(self) -> None:
        """Do nothing: the log holds no connection."""

    def ticks_after(self, seq: int, limits: TickLimits) -> list[Tick]:
        """See the port."""
        return sql_log.ticks_after(self._engine, seq, limits)

    def read(self, owed: SessionKey, ticks: Sequence[Tick]) -> list[list[LogRow]]:
        """See the port."""
        with sql_log.still_kept(self._engine, ticks[0]) as connection:
            return reads.read(connection, owed, ticks)

    def stream(self, owed: SessionKey, tick: Tick, skip: int, limits: TickLimits) -> Iterator[LogPiece]:
        """See the port. Each piece is a separate read, so a slow sink holds no transaction open."""
        high = Visibility.parse(tick.mark).high
        with sql_log.still_kept(self._engine, tick) as connection:
            start = reads.high_before(connection, tick)
            last = reads.last_ids(connection, owed, start, high, MAX_ITEMS) if tick.omits_replaced else {}

        def read(after: int, skipped: int) -> list[LogRow]:
            with sql_log.still_kept(self._engine, tick) as connection:
                return reads.read_piece(connection, owed, after, high, skipped, limits)

        def skim(after: int) -> Sequence[tuple[int, str | None]]:
            with sql_log.still_kept(self._engine, tick) as connection:
                return reads.read_keys(connection, owed, after, high, limits)

        yield from remaining(start, skip, last, read, skim)

    def read_all(self, ticks: Sequence[Tick], limits: TickLimits) -> Iterator[list[LoggedEntry]]:
        """See the port."""
        if ticks[0].is_large:
            piece = partial(reads.whole_piece, tick=ticks[0], limits=limits)
            yield from logged_entries.large_entries(self._engine, ticks[0], piece)
        else:
            yield logged_entries.usual_entries(self._engine, ticks, partial(reads.all_rows, ticks=ticks))

    def followed(self, ticks: Sequence[Tick]) -> list[TickRows]:
        """See the port."""
        return logged_entries.tick_rows(self._engine, ticks, partial(reads.all_rows, ticks=ticks))

    def rotate(
        self, lease: Lease, segment_bytes: int, segment_seconds: float, retention: Retention | None = None
    ) -> bool:
        """See the port."""
        limits = SegmentLimits(segment_seconds, segment_bytes).within(retention)
        with writing(self._engine) as connection:
            leases.check(connection, lease)
            return segments.rotate(connection, limits, retention)

    def trim(self, lease: Lease, retention: Retention) -> TrimResult:
        """See the port."""
        return segments.trim(self._engine, lease, retention, lambda *_: True)
