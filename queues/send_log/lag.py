"""Measure the entries for one session after a position, up to a limit."""

from typing import NamedTuple

from sqlalchemy import Connection, select

from queues.counts import COUNTED
from queues.database.tables.ticks import ticks
from queues.positions import Tick, Visibility
from queues.send_log.opening import owed_size
from queues.send_log.port import SessionKey


class OwedEntries(NamedTuple):
    """Entries for one session, their payload bytes, and the commit time of the oldest; None without an entry.

    Replaced entries of an item count too.
    """

    entries: int
    bytes: int
    oldest_us: int | None


def owed_after(connection: Connection, owed: SessionKey, seq: int, newest: Tick) -> OwedEntries | None:
    """Measure the kept entries of a session after *seq*, up to the tick *newest*; None for more than `COUNTED`."""
    before = select(ticks).where(ticks.c.end_seq <= seq).order_by(ticks.c.end_seq.desc()).limit(1)
    last = connection.execute(before).first()
    found = owed_size(connection)(
        connection,
        owed,
        None if last is None else Visibility.parse(last.mark),
        Visibility.parse(newest.mark),
        COUNTED + 1,
    )
    if found[0] > COUNTED:
        return None
    # In the middle of a tick, the session's entries are numbered from the tick's beginning.
    following = select(ticks.c.start_seq).where(ticks.c.end_seq > seq).order_by(ticks.c.end_seq).limit(1)
    known = max(seq - connection.execute(following).scalar_one(), 0)
    return OwedEntries(max(found[0] - known, 0), found[1], found[2])
