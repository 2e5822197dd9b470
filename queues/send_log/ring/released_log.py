"""The log of a ring's member as sessions may see it: up to the newest released tick."""

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from sqlalchemy import Engine

from queues.database.leases import Lease
from queues.database.transactions import reading
from queues.errors import UsageError
from queues.positions import Tick
from queues.replica_groups import Groups
from queues.send_log.port import (
    Bounds,
    Log,
    LoggedEntry,
    LogPiece,
    LogRow,
    Retention,
    SessionKey,
    Then,
    TickLimits,
    TickRows,
    TrimResult,
)
from queues.send_log.reads import tick_numbered, trimmed_seq
from queues.send_log.ring.leader_trim import may_go
from queues.send_log.sqlite.segments import trim


class ReleasedLog:
    """See `queues.send_log.port.Log`. The member takes the ticks, and a later leader may replace unreleased ones."""

    def __init__(
        self, engine: Engine, kept: Log, released: Callable[[], int], trimmable: Callable[[], int] | None = None
    ) -> None:
        """Show the ticks of *kept*, the log of *engine*'s file, up to the number that *released* returns.

        Entries may go up to the tick with the number that *trimmable* returns; without it, none may go.
        """
        self._engine = engine
        self._kept = kept
        self._released = released
        self._trimmable = trimmable

    def bounds(self) -> Bounds:
        """See the port."""
        with reading(self._engine) as connection:
            return Bounds(trimmed_seq(connection), tick_numbered(connection, self._released()))

    def ticks_after(self, seq: int, limits: TickLimits) -> list[Tick]:
        """See the port."""
        # The number comes first: a tick that is released later may still be replaced during the read.
        upto = self._released()
        return [tick for tick in self._kept.ticks_after(seq, limits) if tick.number <= upto]

    def read(self, owed: SessionKey, ticks: Sequence[Tick]) -> list[list[LogRow]]:
        """See the port."""
        return self._kept.read(owed, ticks)

    def stream(self, owed: SessionKey, tick: Tick, skip: int, limits: TickLimits) -> Iterator[LogPiece]:
        """See the port."""
        return self._kept.stream(owed, tick, skip, limits)

    def read_all(self, ticks: Sequence[Tick], limits: TickLimits) -> Iterator[list[LoggedEntry]]:
        """See the port."""
        return self._kept.read_all(ticks, limits)

    def followed(self, ticks: Sequence[Tick]) -> list[TickRows]:
        """See the port."""
        return self._kept.followed(ticks)

    def regroup(self, lease: Lease, groups: Groups, then: Then) -> None:
        """See the port."""
        self._kept.regroup(lease, groups, then)

    def close(self) -> None:
        """See the port."""
        self._kept.close()

    def take_tick(self, *_: object) -> NoReturn:
        """Raise `UsageError`: the member takes the ticks."""
        raise UsageError("the member of a ring takes the ticks of its log")

    def rotate(
        self, lease: Lease, segment_bytes: int, segment_seconds: float, retention: Retention | None = None
    ) -> bool:
        """See the port; raise `UsageError` where the log is not trimmed."""
        self._require_trimmable()
        return self._kept.rotate(lease, segment_bytes, segment_seconds, retention)

    def trim(self, lease: Lease, retention: Retention) -> TrimResult:
        """See the port; a segment goes only if both followers hold its ticks. Raises `UsageError` as `rotate` does."""
        upto = self._require_trimmable()()
        return trim(
            self._engine,
            lease,
            retention,
            lambda connection, verdict: may_go(connection, verdict, upto, retention),
        )

    def _require_trimmable(self) -> Callable[[], int]:
        if self._trimmable is None:
            raise UsageError("the log of this ring is not trimmed: set trim in the table [ring]")
        return self._trimmable
