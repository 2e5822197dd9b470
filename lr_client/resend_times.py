"""Find the numbers of a session's entries that were committed in a time. A tick may be taken long after its commits."""

from datetime import datetime
from typing import Final

from sqlalchemy import Engine

from lr_client.replays import micros
from queues.database.transactions import reading
from queues.errors import UsageError
from queues.positions import Tick
from queues.send_log.history import first_since, last_before
from queues.send_log.opening import open_log
from queues.send_log.port import Log, SessionKey, TickLimits
from queues.send_log.reads import newest_tick, trimmed_seq
from queues.send_log.resend_rules import SeqRange, sent_rows

#: Each read is one tick.
_ONE: Final = TickLimits(1)


def range_of_time(engine: Engine, key: SessionKey, since: datetime, until: datetime) -> SeqRange:
    """Return the entries committed from *since* on and before *until*; raise `UsageError` if there are none."""
    since_us, until_us = micros(since), micros(until)
    with reading(engine) as connection:
        first, behind = first_since(connection, since_us), first_since(connection, until_us)
        newest, trimmed = newest_tick(connection), trimmed_seq(connection)
        # Without the tick before the first one, trimmed entries may be of that time too.
        is_whole = first is None or not first.start_seq or last_before(connection, first.end_seq) is not None
    if first is None or newest is None or since_us >= until_us:
        raise _none()
    if not is_whole or first.start_seq < trimmed:
        raise UsageError(
            f"entries up to {max(trimmed, first.start_seq):,} are trimmed, some of them perhaps of that time: name the "
            "first and the last entry"
        )
    log = open_log(engine)
    start = _end_before(log, key, first.start_seq, newest.end_seq, since_us)
    end = _end_before(log, key, behind.start_seq, newest.end_seq, until_us) if behind else newest.end_seq
    if end <= start:
        raise _none()
    return SeqRange(start + 1, end)


def _end_before(log: Log, key: SessionKey, seq: int, newest_seq: int, moment_us: int) -> int:
    """Return the number up to which entries were committed before a moment; *seq* is the end of an earlier tick.

    The same moment gives the same number as the end of one range and before the begin of the next.
    """
    while seq < newest_seq:
        [tick] = log.ticks_after(seq, _ONE)
        # A large tick is one transaction, so its first entry tells the time of all.
        times = [each.row.committed_us for each in next(iter(log.read_all([tick], _ONE)))]
        if max(times) >= moment_us:
            return tick.start_seq + (0 if tick.is_large else _count(log, key, tick, moment_us))
        seq = tick.end_seq
    return seq


def _count(log: Log, key: SessionKey, tick: Tick, moment_us: int) -> int:
    return sum(row.committed_us < moment_us for row in sent_rows(log.read(key, [tick])[0]))


def _none() -> UsageError:
    return UsageError("the source has committed no entries in that time")
