"""The sites that the server knows, recorded for senders, manual trimming and status."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, insert, select, update

from queues.database.tables.destinations import known_sites
from queues.destinations import members
from queues.names import SET_SEPARATOR, ClientName, SiteId

#: Selects the record, for sending with other statements.
READ_KNOWN: Final = select(known_sites.c.peers, known_sites.c.clients, known_sites.c.known_only)


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
    return known_of(connection.execute(READ_KNOWN).all())


def known_of(rows: Iterable[Sequence[Any]]) -> KnownSites | None:
    """Return the record in the rows of `READ_KNOWN`. Pure."""
    for peers, clients, known_only in rows:
        names = frozenset(ClientName(name) for name in names_in(clients))
        return KnownSites(frozenset(names_in(peers)), names, bool(known_only))
    return None


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
