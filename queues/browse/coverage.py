"""Find the tick that holds an entry and the sessions that have acknowledged the entry, both by visibility."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, func, select

from queues.database.tables.sessions import sessions
from queues.database.tables.ticks import ticks
from queues.positions import Tick, Visibility
from queues.send_log.reads import tick_of


class TickSearch:
    """Binary search over the kept ticks; each tick covers all that the tick before covers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last: Tick | None = None
        oldest, newest = connection.execute(select(func.min(ticks.c.number), func.max(ticks.c.number))).one()
        self._bounds = (oldest or 0, (newest or -1) + 1)

    def holding(self, transaction: int, order: int) -> Tick | None:
        """Return the first kept tick that covers an entry (see `Visibility.covers`); None if no tick does yet."""
        found: Tick | None = None
        low, high = self._bounds
        while low < high:
            # Consecutive entries are mostly in the same tick or in adjacent ones, so these are tried first.
            middle = self._guess(low, high) or (low + high) // 2
            tick = self._at(middle)
            if tick is None:
                high = middle
            elif Visibility.parse(tick.mark).covers(transaction, order):
                found, high = tick, middle
            else:
                low = tick.number + 1
        self._last = found
        return found

    def _guess(self, low: int, high: int) -> int | None:
        if self._last is None:
            return None
        number = self._last.number
        return next((near for near in (number, number - 1, number + 1) if low <= near < high), None)

    def _at(self, number: int) -> Tick | None:
        upwards = select(ticks).where(ticks.c.number >= number).order_by(ticks.c.number).limit(1)
        row = self._connection.execute(upwards).first()
        return None if row is None else tick_of(row)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The acknowledged entries of one session: all entries that one of `marks` covers."""

    marks: tuple[Visibility, ...] = ()

    @property
    def floor(self) -> int:
        """The first transaction (SQLite: row) that the destination may lack."""
        return max((_first_uncovered(mark) for mark in self.marks), default=0)

    def has(self, transaction: int, order: int) -> bool:
        """Return whether the destination has an entry; see `Visibility.covers`."""
        return any(mark.covers(transaction, order) for mark in self.marks)


#: The acknowledged entries of a destination without a session.
NOTHING: Final = Acknowledged()


def acknowledged(connection: Connection) -> Mapping[tuple[str, str], Acknowledged]:
    """Return the acknowledged entries of each session of this source, by client and destination."""
    at: dict[int, tuple[Visibility, ...]] = {}
    found: dict[tuple[str, str], Acknowledged] = {}
    for session in connection.execute(select(sessions)).all():
        if session.acked_seq not in at:
            at[session.acked_seq] = _mark_at(connection, session.acked_seq)
        cut = (Visibility.parse(session.cut),) if session.cut else ()
        found[session.client, session.destination] = Acknowledged((*at[session.acked_seq], *cut))
    return found


def _mark_at(connection: Connection, seq: int) -> tuple[Visibility, ...]:
    newest = select(ticks.c.mark).where(ticks.c.end_seq <= seq).order_by(ticks.c.number.desc()).limit(1)
    mark = connection.execute(newest).scalar()
    return () if mark is None else (Visibility.parse(mark),)


def _first_uncovered(mark: Visibility) -> int:
    if mark.window is None:
        return mark.high + 1
    window = mark.window if mark.upto is None or mark.base is None else mark.base
    return min((*window.running, window.xmax))
