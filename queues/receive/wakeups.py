"""Wake an idle subscriber when its queue gets entries; a lost wakeup only adds the wait until the next poll.

Within the process an event is set. On SQLite a datagram wakes the other processes of the machine (Linux only). On
PostgreSQL a NOTIFY wakes processes on any machine. A NOTIFY makes commits wait for each other. So a sink sends it only
while a subscriber of the queue sleeps. A sleeping subscriber shares an advisory lock of the queue. The transaction of
the sink tries to take that lock alone. A transaction with the lock sends nothing, and keeps the lock until its end.
The lock of a subscriber ends with its connection, so a dead subscriber gets no NOTIFY.

lrq never prepares the transactions of a sink for a two-phase commit, so all of them can send a NOTIFY.
"""

import threading
from typing import Final, NamedTuple
from weakref import WeakSet

from sqlalchemy import Connection, TextClause, select, text

from queues import datagrams
from queues.database import dialects
from queues.database.dialect import Statement
from queues.database.tables.site import site
from queues.receive.marks import ReceiveState

#: Each set of lrq's tables in the database has separate locks, one for each queue.
LOCK: Final = "'lrq_receive_queues'::regclass::oid::int"
CHANNEL: Final = "lrq_received"
#: Wakes the subscribers of the queue at the commit, if one sleeps and `tells` is true.
NOTIFYING: Final[TextClause] = text(
    "CASE WHEN NOT CAST(:tells AS boolean) THEN NULL"
    f" WHEN NOT pg_try_advisory_xact_lock({LOCK}, CAST(:of_queue AS integer))"
    f" THEN CAST(pg_notify('{CHANNEL}', CAST(CAST(:of_queue AS integer) AS text)) AS text) END"
)
_NOTIFY: Final = select(NOTIFYING)
#: The processes of one database on this machine that datagrams can wake.
PROCESSES: Final = 4

_guard = threading.Lock()
_events: dict[tuple[str, int], "WeakSet[threading.Event]"] = {}


class WakeupPlace(NamedTuple):
    """The database of a site: its name, which copies of the database share, and whether datagrams wake others."""

    database: str
    has_datagrams: bool


def place_of(connection: Connection) -> WakeupPlace:
    """Return the place of the connection's database, which must be initialized."""
    site_id, created_us = connection.execute(select(site.c.site_id, site.c.created_us)).one()
    return WakeupPlace(f"{site_id} {created_us}", dialects.of(connection) is dialects.SQLITE)


def brings_work(before: ReceiveState, after: ReceiveState) -> bool:
    """Return whether a subscriber has new work after the change of the marks."""
    return _reached(before) != _reached(after)


def _reached(marks: ReceiveState) -> tuple[str, int, str]:
    return marks.received.branch, marks.boundary_seq, marks.sync_id


def notifying(connection: Connection, queue_id: int, *, tells: bool) -> list[Statement]:
    """Return the statement that notifies the sleeping subscribers of a queue; none on SQLite."""
    if not tells or dialects.of(connection) is not dialects.POSTGRESQL:
        return []
    return [(_NOTIFY, {"of_queue": queue_id, "tells": True})]


def tell(place: WakeupPlace, queue_id: int) -> None:
    """Wake the subscribers of a queue in this process, and on SQLite in others; call after the commit."""
    if (place.database, queue_id) in _events:
        with _guard:
            events = tuple(_events[place.database, queue_id])
        for event in events:
            event.set()
    if place.has_datagrams:
        for number in range(PROCESSES):
            datagrams.send(_name(place, number), b"%d" % queue_id)


def listen(place: WakeupPlace, queue_id: int, event: threading.Event) -> None:
    """Have `tell` set *event*, within this process, for as long as the event exists."""
    with _guard:
        _events.setdefault((place.database, queue_id), WeakSet()).add(event)


def datagram_names(place: WakeupPlace) -> list[str]:
    """Return the names of receivers in the database's processes, each of which takes a free one."""
    return [_name(place, number) for number in range(PROCESSES)] if place.has_datagrams else []


def _name(place: WakeupPlace, number: int) -> str:
    return f"received {place.database} {number}"
