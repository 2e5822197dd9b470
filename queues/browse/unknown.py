"""The entries for unknown destinations, which are no peers of the site: how many there are, and since when."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select

from queues.browse.coverage import acknowledged
from queues.browse.entries import Wanted
from queues.browse.port import Cursor
from queues.browse.send_log import browsing, count_lacked
from queues.counts import COUNTED, Count
from queues.database import dialects
from queues.database.tables.destinations import tag_set_members
from queues.send_log.known_sites import READ_KNOWN, known_of
from queues.send_log.links import READ_UNCLAIMED
from queues.send_log.named_sites import READ_NAMED
from queues.send_log.port import SessionKey, keys_of
from queues.send_log.unknown import READ_DROPPED, dropped_of

#: The most destinations that are reported.
_MOST: Final = 100
_QUESTIONS: Final = READ_KNOWN, READ_DROPPED, READ_NAMED, READ_UNCLAIMED
#: The most destination sets that are counted for one destination.
_MAX_SETS: Final = 1_024


@dataclass(frozen=True, slots=True)
class UnknownDestination:
    """The entries of a client for a site that is no peer: `waiting` in the log, and `dropped` ones.

    `oldest_us` is the time of the oldest waiting entry, 0 without one. `is_peer` now: entries were dropped before.
    """

    owed: SessionKey
    waiting: Count
    oldest_us: int
    dropped: int
    is_peer: bool = False


def unknown_destinations(connection: Connection) -> list[UnknownDestination]:
    """Return the unknown destinations with waiting or dropped entries, at most a hundred; by client and destination.

    Without a record of the peers no destination is unknown.
    """
    # One message, because a quiet server asks every few seconds.
    answers = dialects.of(connection).run_all(connection, [(each, {}) for each in _QUESTIONS])
    known, dropped = known_of(answers[0]), dropped_of(answers[1])
    if known is None:
        return []
    named = {owed for owed in keys_of(answers[2]) if owed.destination not in known.peers}.difference(
        keys_of(answers[3])
    )
    with_session = acknowledged(connection).keys() if named else ()
    found: list[UnknownDestination] = []
    for owed in sorted(named | dropped.keys()):
        waiting, oldest_us = Count(0), 0
        if owed in named:
            waiting, oldest_us = (_lacked if owed in with_session else _for_stranger)(connection, owed)
        if waiting.entries or dropped.get(owed):
            is_peer = owed.destination in known.peers
            found.append(UnknownDestination(owed, waiting, oldest_us, dropped.get(owed, 0), is_peer))
        if len(found) == _MOST:
            break
    return found


def _lacked(connection: Connection, owed: SessionKey) -> tuple[Count, int]:
    """Count the entries that a removed site has not acknowledged; return the count and the time of the oldest one."""
    return count_lacked(connection, Wanted(client=owed.client, destination=owed.destination))


def _for_stranger(connection: Connection, owed: SessionKey) -> tuple[Count, int]:
    """Count the entries for a destination without a session; return the count and the time of the oldest one."""
    own = tag_set_members.c.client == owed.client, tag_set_members.c.destination == owed.destination
    sets = connection.execute(select(tag_set_members.c.tag_set).where(*own).limit(_MAX_SETS)).scalars()
    floors = dict.fromkeys(sets, 0)
    counted = browsing(connection).count(connection, floors, COUNTED + 1)
    oldest = browsing(connection).entries(connection, Cursor(0, 0), floors, 1) if counted else []
    return Count(min(counted, COUNTED), is_least=counted > COUNTED), oldest[0].created_us if oldest else 0
