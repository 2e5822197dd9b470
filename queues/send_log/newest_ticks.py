"""The newest ticks of the log, read at once: the lag of a session that keeps up needs no others."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import Connection, select

from queues.database.tables.ticks import ticks
from queues.positions import Tick
from queues.send_log.reads import tick_of

#: The number of ticks that are read at once.
AT_ONCE: Final = 64


class TicksAround(NamedTuple):
    """The last kept tick that ends at or before a position, and the first that ends after it.

    `before` is None without such a tick.
    """

    before: Tick | None
    following: Tick


@dataclass(frozen=True, slots=True)
class NewestTicks:
    """The newest ticks of the log, oldest first. `is_whole`: the log has no older ones."""

    ticks: Sequence[Tick]
    is_whole: bool

    @property
    def newest(self) -> Tick | None:
        """The newest tick of the log; None without ticks."""
        return self.ticks[-1] if self.ticks else None

    def around(self, seq: int) -> TicksAround | None:
        """Return the ticks around *seq*; None where one of them is not among these."""
        index = bisect_right(self.ticks, seq, key=lambda tick: tick.end_seq)
        if index == len(self.ticks) or not (index or self.is_whole):
            return None
        return TicksAround(self.ticks[index - 1] if index else None, self.ticks[index])


def read_newest(connection: Connection, most: int = AT_ONCE) -> NewestTicks:
    """Return the newest *most* ticks of the log."""
    rows = connection.execute(select(ticks).order_by(ticks.c.number.desc()).limit(most)).all()
    return NewestTicks([tick_of(row) for row in reversed(rows)], is_whole=len(rows) < most)


def ticks_around(connection: Connection, recent: NewestTicks, seq: int) -> TicksAround:
    """Return the ticks around *seq*, from the database if need be; a tick must end after *seq*."""
    if (found := recent.around(seq)) is not None:
        return found
    last = select(ticks).where(ticks.c.end_seq <= seq).order_by(ticks.c.end_seq.desc()).limit(1)
    first = select(ticks).where(ticks.c.end_seq > seq).order_by(ticks.c.end_seq).limit(1)
    before, following = connection.execute(last).first(), connection.execute(first).one()
    return TicksAround(None if before is None else tick_of(before), tick_of(following))
