"""The record of destinations that lost entries before they had a session, and the question whether a log is whole.

A session has a record of its own losses. A stranger has no session, so trim notes its name here. Only so can a later
session of that destination know that the log lacks entries for it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import Connection, func, select, update

from queues.database import dialects
from queues.database.tables.destinations import strangers
from queues.database.tables.log import log_head
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey
from queues.send_log.sessions import find_session
from queues.send_log.unordered import recorded

#: The most destinations with a row of their own; after that, every destination of all clients counts as a stranger.
MOST_RECORDED: Final = 1_000
#: No client and no site has this name.
EVERY: Final = "*"


def record_strangers(connection: Connection, lost: Iterable[SessionKey], end: int) -> None:
    """Record that the strangers *lost* entries; the same transaction trims the log up to *end*, its trimmed sequence.

    A version that knows no strangers trims without this call. Then the record stays incomplete for good.
    """
    known = {SessionKey(*row) for row in connection.execute(select(strangers.c.client, strangers.c.destination))}
    new = sorted(set(lost) - known)
    if new and len(known) + len(new) > MOST_RECORDED:
        new = [key for key in [SessionKey(ClientName(EVERY), SiteId(EVERY))] if key not in known]
    if new:
        _add(connection, new)
    is_complete = log_head.c.strangers_seq == log_head.c.trimmed_seq
    connection.execute(update(log_head).where(is_complete, log_head.c.trimmed_seq < end).values(strangers_seq=end))


def record_stranger(connection: Connection, key: SessionKey) -> None:
    """Record that a destination may have lost entries, because its session was forgotten."""
    one = (strangers.c.client == key.client) & (strangers.c.destination == key.destination)
    if connection.execute(select(func.count()).where(one)).scalar_one() == 0:
        _add(connection, [key])


def _add(connection: Connection, keys: Sequence[SessionKey]) -> None:
    # Fails if a trigger of others leaves out a row: a later session would not know its losses.
    dialects.of(connection).bulk_insert(connection, strangers, SessionKey._fields, keys)


def lost_by(connection: Connection, key: SessionKey) -> int:
    """Return the end of the entries that a new session may have lost; 0 if the destination is no stranger."""
    if not _is_stranger(connection, key):
        return 0
    return int(connection.execute(select(log_head.c.trimmed_seq)).scalar_one())


def is_whole(connection: Connection, key: SessionKey) -> bool:
    """Return whether the log surely holds every entry that was ever written for this client and destination.

    In doubt the answer is False: once the session has acknowledged entries, or after a restore without a history.
    """
    if any(each.client == key.client and each.dropped for each in recorded(connection)):
        return False
    head = connection.execute(select(log_head.c.trimmed_seq, log_head.c.strangers_seq)).one()
    if head.trimmed_seq == 0:
        return True
    found = find_session(connection, key)
    has_lost = found is not None and bool(found.lost_seq or found.acked_seq)
    return head.strangers_seq == head.trimmed_seq and not has_lost and not _is_stranger(connection, key)


def _is_stranger(connection: Connection, key: SessionKey) -> bool:
    one = (strangers.c.client == key.client) & (strangers.c.destination == key.destination)
    every = (strangers.c.client == EVERY) & (strangers.c.destination == EVERY)
    return connection.execute(select(func.count()).where(one | every)).scalar_one() > 0
