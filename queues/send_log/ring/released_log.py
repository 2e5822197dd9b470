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
    SessionKey,
    Then,
    TickLimits,
    TickRows,
)
from queues.send_log.reads import tick_numbered, trimmed_seq


class ReleasedLog:
    """See `queues.send_log.port.Log`. The member takes the ticks, and a later leader may replace unreleased ones."""

    def __init__(self, engine: Engine, kept: Log, released: Callable[[], int]) -> None:
        """Show the ticks of *kept*, the log of *engine*'s file, up to the number that *released* returns."""
        self._engine = engine
        self._kept = kept
        self._released = released

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

    def rotate(self, *_: object) -> NoReturn:
        """Raise `UsageError`: the segments of all members are alike."""
        raise UsageError("the member of a ring keeps the segments of its log")

    def trim(self, *_: object) -> NoReturn:
        """Raise `UsageError`: a follower may lack the ticks."""
        raise UsageError("the member of a ring keeps the ticks of its log")
