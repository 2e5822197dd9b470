"""The sites that the server knows, recorded for senders, manual trimming and status."""

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from queues.database.tables.destinations import known_sites
from queues.destinations import members
from queues.names import SET_SEPARATOR, ClientName, SiteId


@dataclass(frozen=True, slots=True)
class KnownSites:
    """The peers and clients of the last server; empty `clients` mean every client.

    With `known_only`, senders refuse destinations that are no peers.
    """

    peers: frozenset[SiteId]
    clients: frozenset[ClientName] = frozenset()
    known_only: bool = False

    def has_client(self, client: ClientName) -> bool:
        """Return whether the server replicates *client*."""
        return not self.clients or client in self.clients


def read_known(connection: Connection) -> KnownSites | None:
    """Return the record of the last server; None before the first server has worked."""
    row = connection.execute(select(known_sites)).first()
    if row is None:
        return None
    clients = frozenset(ClientName(name) for name in names_in(row.clients))
    return KnownSites(frozenset(names_in(row.peers)), clients, bool(row.known_only))


def record_known(connection: Connection, known: KnownSites) -> None:
    """Replace the record."""
    if read_known(connection) == known:
        return
    values = {"peers": _text(known.peers), "clients": _text(known.clients), "known_only": known.known_only}
    if not connection.execute(update(known_sites).values(values)).rowcount:
        connection.execute(insert(known_sites).values(one=1, **values))


def names_in(text: str) -> tuple[SiteId, ...]:
    """Return the names of a stored list, which may be empty."""
    return members(text) if text else ()


def _text(names: frozenset[SiteId] | frozenset[ClientName]) -> str:
    return SET_SEPARATOR.join(sorted(names))
