"""The times of ticks by their commits.

A tick has the time of its server. The clock of that machine may be behind the clock of the database.
"""

from typing import Final

from sqlalchemy import Engine

from queues.database.transactions import reading
from queues.errors import TrimmedError
from queues.positions import Tick
from queues.send_log.opening import open_log
from queues.send_log.port import Log, TickLimits
from queues.send_log.reads import newest_tick, tick_numbered
from queues.send_log.ring.member_rows import rank_at

#: Each read is one tick, or the first entry of a large one, which is one transaction.
_ONE: Final = TickLimits(1)


def end_committed_since(engine: Engine, since_us: int) -> int | None:
    """Return the end of the first kept tick with an entry committed at *since_us* or later; None without one.

    None also on a ring, where one clock gives both times.
    """
    with reading(engine) as connection:
        newest = newest_tick(connection) if rank_at(connection) is None else None
    log, found = open_log(engine), None
    # Commits follow each other in time, so a binary search finds the tick.
    low, high = 1, 1 if newest is None else newest.number + 1
    while low < high:
        middle = (low + high) // 2
        with reading(engine) as connection:
            tick = tick_numbered(connection, middle)
        if tick is not None and _is_since(log, tick, since_us):
            found, high = tick.end_seq, middle
        else:
            low = middle + 1
    return found


def _is_since(log: Log, tick: Tick, since_us: int) -> bool:
    try:
        return last_commit_us(log, tick) >= since_us
    except TrimmedError:
        return False


def last_commit_us(log: Log, tick: Tick) -> int:
    """Return the time of the last commit in a tick, in microseconds since 1970; 0 for a tick without entries.

    Raises `TrimmedError`.
    """
    entries = next(iter(log.read_all([tick], _ONE)), [])
    return max((each.row.committed_us for each in entries), default=0)
