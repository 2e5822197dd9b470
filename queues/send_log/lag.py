"""Measure the entries for sessions after positions, up to a limit."""

from typing import NamedTuple

from sqlalchemy import Connection

from queues.counts import COUNTED
from queues.positions import Tick, Visibility
from queues.send_log.newest_ticks import TicksAround
from queues.send_log.opening import measure_of
from queues.send_log.port import OwedSize, SessionKey


class OwedEntries(NamedTuple):
    """Entries for one session, their payload bytes, and the commit time of the oldest; None without an entry.

    Replaced entries of an item count too.
    """

    entries: int
    bytes: int
    oldest_us: int | None


class OwedReader:
    """Measures entries for sessions, within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._measure: OwedSize | None = None

    def after(self, owed: SessionKey, seq: int, around: TicksAround, newest: Tick) -> OwedEntries | None:
        """Measure the kept entries of a session after *seq*, up to the tick *newest*; None for more than `COUNTED`.

        *around*: the ticks around *seq*.
        """
        if self._measure is None:
            self._measure = measure_of(self._connection)
        before = None if around.before is None else Visibility.parse(around.before.mark)
        found = self._measure(owed, before, Visibility.parse(newest.mark), COUNTED + 1)
        if found[0] > COUNTED:
            return None
        # In the middle of a tick, the session's entries are numbered from the tick's beginning.
        known = max(seq - around.following.start_seq, 0)
        return OwedEntries(max(found[0] - known, 0), found[1], found[2])
