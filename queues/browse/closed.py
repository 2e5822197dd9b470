"""Tell whether ticks hold all committed entries, and which sessions must still begin for them."""

from sqlalchemy import Connection

from queues.browse.send_log import browsing
from queues.positions import Visibility
from queues.send_log.known_sites import KnownSites
from queues.send_log.links import unclaimed
from queues.send_log.named_sites import named_sites
from queues.send_log.port import SessionKey
from queues.send_log.reads import newest_tick
from queues.send_log.sessions import every_key


def closed_at(connection: Connection, committed: Visibility) -> int | None:
    """Return the end of the newest tick if the ticks cover all of *committed*; None if an entry is in no tick yet."""
    newest = newest_tick(connection)
    after = Visibility.parse(newest.mark) if newest else None
    if browsing(connection).uncovered(connection, after, committed, 1):
        return None
    return newest.end_seq if newest else 0


def coming_sessions(connection: Connection, known: KnownSites) -> list[SessionKey]:
    """Return the pairs of *known* clients and peers that entries name, and that have no session yet."""
    begun = unclaimed(connection).union(every_key(connection))
    return [
        owed
        for owed in named_sites(connection)
        if owed not in begun and owed.destination in known.peers and known.has_client(owed.client)
    ]
