"""Close the name of a group of replicas for a client while the links to all its members have ended.

Senders and SQL functions compare names only. Without a wish for the name itself, entries for it would be accepted, and
no site would ever get them.
"""

from collections.abc import Iterable

from sqlalchemy import Connection

from queues.names import ClientName
from queues.send_log.links import closed_links, set_wish
from queues.send_log.port import SessionKey
from queues.send_log.replica_members import read_groups
from queues.states import LinkWish


def settle_names(connection: Connection, clients: Iterable[ClientName]) -> None:
    """Close and open the names of groups for *clients*, after the wishes for members have changed."""
    groups = read_groups(connection)
    if not groups:
        return
    closed = closed_links(connection)
    for client in sorted(set(clients)):
        over = closed.get(client, frozenset())
        ended = {name for name, members in groups.items() if over.issuperset(members)}
        known = over.intersection(groups)
        for names, wish in ((ended - known, LinkWish.ENDED), (known - ended, LinkWish.RUNNING)):
            if names:
                set_wish(connection, [SessionKey(client, name) for name in names], wish)
