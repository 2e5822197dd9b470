"""Begin the order to send a range of the log again: find the range, and refuse a part of one."""

from datetime import datetime

from sqlalchemy import Connection, Engine

from lr_client.replays import entry_position
from lr_client.resend_cuts import refuse_divided
from lr_client.resend_times import range_of_time
from queues.database.transactions import reading, writing, writing_briefly
from queues.destinations import destination_set
from queues.errors import LinkEndedError, UsageError
from queues.positions import Position
from queues.send_log import reads, resends, sessions
from queues.send_log.destination_check import check_destinations, link_ended
from queues.send_log.history import branch_at
from queues.send_log.links import closed_links
from queues.send_log.outbox import NewEntry
from queues.send_log.port import SessionKey
from queues.send_log.replica_sets import regrouped_seq
from queues.send_log.resend_rules import LogExtent, SeqRange, refuse_range
from queues.send_log.resends import ResendOrder, ResendState
from queues.send_log.ring.member_rows import rank_at

#: The first and the last entry.
Numbers = tuple[int | Position | str | None, int | Position | str | None]
#: The begin of a time, and its end, which is not included.
Times = tuple[datetime | None, datetime | None]


def begin_order(engine: Engine, key: SessionKey, numbers: Numbers, times: Times, person: str) -> ResendOrder:
    """Store the order for a range in one transaction; see `resend_entries` for the arguments and errors."""
    wanted = check_order(engine, key, numbers, times)
    with writing(engine) as connection:
        _refuse(connection, key, wanted)
        return resends.begin(connection, key, wanted, person)


def check_order(engine: Engine, key: SessionKey, numbers: Numbers, times: Times) -> SeqRange:
    """Return the range of an order that could begin now; raise the errors of `begin_order` and store nothing."""
    with reading(engine) as connection:
        _require_session(connection, key)
    wanted = _range(engine, key, numbers, times)
    # The check of the destination takes SQLite's write lock, as each sender does. A reader could not take it any more.
    with writing_briefly(engine) as connection:
        _refuse(connection, key, wanted)
    return wanted


def _require_session(connection: Connection, key: SessionKey) -> None:
    if rank_at(connection) is not None:
        raise UsageError("a ring has no database with entries to send again: let the producers send them again")
    if sessions.find_session(connection, key) is None:
        raise UsageError(f"no session sends {key.client} to {key.destination}: `lrq status` shows the sessions")


def _refuse(connection: Connection, key: SessionKey, wanted: SeqRange) -> None:
    _require_session(connection, key)
    last = resends.last_order(connection, key)
    if last is not None and last.state is ResendState.BEGUN:
        raise UsageError(
            f"an earlier resend of {last.name} has not ended: `lrq resend continue {key.client} {key.destination}`, or "
            f"`lrq resend cancel {key.client} {key.destination}`"
        )
    if refusal := refuse_range(wanted, _extent(connection)):
        raise UsageError(f"{key.client} to {key.destination}: {refusal}")
    if key.destination in closed_links(connection).get(key.client, ()):
        raise LinkEndedError(link_ended(key.client, key.destination))
    check_destinations(connection, key.client, [NewEntry(b"", destination_set(key.client, [key.destination]))])


def _extent(connection: Connection) -> LogExtent:
    newest = reads.newest_tick(connection)
    return LogExtent(reads.trimmed_seq(connection), newest.end_seq if newest else 0, regrouped_seq(connection))


def _range(engine: Engine, key: SessionKey, numbers: Numbers, times: Times) -> SeqRange:
    start, end = numbers
    since, until = times
    if start is not None and end is not None and times == (None, None):
        return _numbered_range(engine, key, start, end)
    if since is not None and until is not None and numbers == (None, None):
        return range_of_time(engine, key, since, until)
    raise UsageError("a range needs its first and its last entry, or two times")


def _numbered_range(
    engine: Engine, key: SessionKey, start: int | Position | str, end: int | Position | str
) -> SeqRange:
    with reading(engine) as connection:
        wanted = SeqRange(_number(connection, start), _number(connection, end))
        is_whole = not refuse_range(wanted, _extent(connection))
    # The log has no ticks to read for other ranges, which are refused later.
    if is_whole and (refusal := refuse_divided(engine, key, wanted)):
        raise UsageError(f"{key.client} to {key.destination}: {refusal}")
    return wanted


def _number(connection: Connection, given: int | Position | str) -> int:
    position = entry_position(given)
    there = branch_at(connection, position.seq)
    if position.branch not in ("", there):
        raise UsageError(f"{position} is not in the history of this site, which has {there} there")
    return position.seq
