"""Finding the tick that holds an entry."""

from sqlalchemy import Connection, func, select

from queues.log.sql import tick_of
from queues.positions import Mark, Tick
from queues.tables import ticks


class TickSearch:
    """Searches the kept ticks by halving, which their marks, that only grow, allow."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last: Tick | None = None
        oldest, newest = connection.execute(select(func.min(ticks.c.number), func.max(ticks.c.number))).one()
        self._bounds = (oldest or 0, (newest or -1) + 1)

    def holding(self, transaction: int, order: int) -> Tick | None:
        """Return the first kept tick that covers an entry (see `Mark.covers`); None when none does yet."""
        found: Tick | None = None
        low, high = self._bounds
        while low < high:
            # Neighbours are mostly in the same tick, or in the next one: look there first.
            middle = self._guess(low, high) or (low + high) // 2
            tick = self._at(middle)
            if tick is None:
                high = middle
            elif Mark.parse(tick.mark).covers(transaction, order):
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
