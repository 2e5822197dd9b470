"""Trim the log in the file of a ring's member, tick by tick. The functions need the caller's transaction.

The entries go, and old rows of ticks. The rows of generations and branches stay, because they tell the history. The
file of a follower knows no acknowledgement of a sink. So the file notes the last trimmed entry of each destination.
Only a sink that has received that entry goes on from this file.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from sqlalchemy import Connection, delete, func, select, update

from queues.database.left_out import require_none
from queues.database.tables.destinations import tag_set_members
from queues.database.tables.log import sqlite_segments
from queues.database.tables.sessions import sessions
from queues.database.tables.ticks import ticks
from queues.names import ClientName, SiteId
from queues.positions import Tick
from queues.send_log.destination_sets import forget_unused
from queues.send_log.port import SessionKey
from queues.send_log.reads import tick_of, trimmed_seq
from queues.send_log.segments import record_trimmed
from queues.send_log.sqlite.segments import forget_ticks
from queues.send_log.strangers import record_strangers

#: The most entries of one call of `trim_upto`, apart from those of the first tick.
_MOST: Final = 5_000


def trimmed_tick(connection: Connection) -> Tick | None:
    """Return the newest tick whose entries are trimmed; None for a whole log. The ticks after it are whole."""
    end = trimmed_seq(connection)
    if not end:
        return None
    row = connection.execute(select(ticks).where(ticks.c.end_seq >= end).order_by(ticks.c.number).limit(1)).one()
    return tick_of(row)


def trimmed_number(connection: Connection) -> int:
    """Return the number of the newest tick whose entries are trimmed; 0 for a whole log."""
    tick = trimmed_tick(connection)
    return 0 if tick is None else tick.number


def trim_upto(connection: Connection, number: int) -> bool:
    """Trim the next ticks up to *number*: ticks with up to `_MOST` entries, but at least one.

    Return whether all of them are trimmed now.
    """
    before = trimmed_seq(connection)
    with_entries = select(ticks).where(ticks.c.number <= number, ticks.c.end_seq > before)
    newest = with_entries.where(ticks.c.end_seq <= before + _MOST).order_by(ticks.c.end_seq.desc(), ticks.c.number)
    row = connection.execute(newest.limit(1)).first()
    if row is None:
        row = connection.execute(with_entries.order_by(ticks.c.number).limit(1)).first()
    if row is None:
        return True
    _trim(connection, tick_of(row))
    return connection.execute(with_entries.where(ticks.c.end_seq > row.end_seq).limit(1)).first() is None


def _trim(connection: Connection, upto: Tick) -> None:
    end = upto.end_seq
    note_losses(connection, _last_entries(connection, end), end)
    for table in sqlite_segments:
        connection.execute(delete(table).where(table.c.id <= end))
    forget_unused(connection, end)
    forget_ticks(connection, upto)


def _last_entries(connection: Connection, end: int) -> Mapping[SessionKey, int]:
    """Return the last entry up to number *end* for each client and destination that has one in the file."""
    found: dict[SessionKey, int] = {}
    for table in sqlite_segments:
        # In the log of a ring the id of an entry is the number of its place.
        lasts = select(table.c.tag_set, func.max(table.c.id).label("last")).where(table.c.id <= end)
        last = lasts.group_by(table.c.tag_set).subquery()
        of_set = tag_set_members.c
        named = select(of_set.client, of_set.destination, func.max(last.c.last)).join(
            last, of_set.tag_set == last.c.tag_set
        )
        for client, destination, entry in connection.execute(named.group_by(of_set.client, of_set.destination)):
            key = SessionKey(ClientName(client), SiteId(destination))
            found[key] = max(found.get(key, 0), entry)
    return found


def note_losses(connection: Connection, lasts: Mapping[SessionKey, int], end: int) -> None:
    """Record that entries up to number *end* are trimmed, with the last one of each destination.

    A destination without a session becomes a stranger: a later session of it begins after *end*.
    """
    for key, last in lasts.items():
        own = (sessions.c.client == key.client) & (sessions.c.destination == key.destination)
        lower = own & (sessions.c.lost_seq < last)
        if not connection.execute(update(sessions).where(lower).values(lost_seq=last)).rowcount:
            require_none(connection, sessions, lower)
    record_strangers(connection, _without_session(connection, lasts), end)
    record_trimmed(connection, end)


def _without_session(connection: Connection, keys: Iterable[SessionKey]) -> set[SessionKey]:
    known = {tuple(row) for row in connection.execute(select(sessions.c.client, sessions.c.destination))}
    return {key for key in keys if tuple(key) not in known}
