"""Find the numbers of a session's entries that were committed in a time.

A tick may be taken long after its commits, by the clock of another machine. So the time of a tick only tells where to
look first.
"""

from datetime import datetime
from typing import Final

from sqlalchemy import Engine

from lr_client.replays import micros
from queues.database.transactions import reading
from queues.errors import UsageError
from queues.positions import Tick
from queues.send_log.commit_times import last_commit_us
from queues.send_log.history import first_since, last_before
from queues.send_log.opening import open_log
from queues.send_log.port import Log, SessionKey, TickLimits
from queues.send_log.reads import newest_tick, trimmed_seq
from queues.send_log.resend_rules import SeqRange, sent_rows

#: Each read is one tick.
_ONE: Final = TickLimits(1)


def range_of_time(engine: Engine, key: SessionKey, since: datetime, until: datetime) -> SeqRange:
    """Return the entries committed from *since* on and before *until*; raise `UsageError` if there are none.

    Raises `UsageError` also if trimmed entries are perhaps of that time.
    """
    since_us, until_us = micros(since), micros(until)
    with reading(engine) as connection:
        newest = newest_tick(connection)
    if newest is None or since_us >= until_us:
        raise _none()
    start, end = (_end_before(engine, key, newest.end_seq, moment_us) for moment_us in (since_us, until_us))
    if end <= start:
        raise _none()
    return SeqRange(start + 1, end)


def _end_before(engine: Engine, key: SessionKey, newest_seq: int, moment_us: int) -> int:
    """Return the number up to which entries were committed before a moment.

    The same moment gives the same number as the end of one range and before the begin of the next.
    """
    log = open_log(engine)
    seq = _start_before(engine, log, newest_seq, moment_us)
    while seq < newest_seq:
        [tick] = log.ticks_after(seq, _ONE)
        if last_commit_us(log, tick) >= moment_us:
            return tick.start_seq + (0 if tick.is_large else _count(log, key, tick, moment_us))
        seq = tick.end_seq
    return seq


def _start_before(engine: Engine, log: Log, newest_seq: int, moment_us: int) -> int:
    """Return the end of a tick before the moment, by its commits; a trimmed tick has none any more."""
    with reading(engine) as connection:
        first = first_since(connection, moment_us)
    seq = begin = newest_seq if first is None else first.start_seq
    while True:
        with reading(engine) as connection:
            tick, trimmed = last_before(connection, seq + 1), trimmed_seq(connection)
        # Without the tick, or behind later commits, trimmed entries may be of that time too.
        if seq < trimmed or (seq and (tick is None or (seq == trimmed and seq < begin))):
            raise UsageError(
                f"entries up to {max(trimmed, seq):,} are trimmed, some of them perhaps of that time: name the first "
                "and the last entry"
            )
        if tick is None or seq == trimmed or last_commit_us(log, tick) < moment_us:
            return seq
        seq = tick.start_seq


def _count(log: Log, key: SessionKey, tick: Tick, moment_us: int) -> int:
    return sum(row.committed_us < moment_us for row in sent_rows(log.read(key, [tick])[0]))


def _none() -> UsageError:
    return UsageError("the source has committed no entries in that time")
