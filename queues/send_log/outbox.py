"""Write entries into the send log, in the application's transaction."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sqlalchemy import Connection

from queues.destinations import DestinationSet


class NewEntry(NamedTuple):
    """One validated entry of the application; `headers` is text of `queues.entry_headers`."""

    payload: bytes
    destinations: DestinationSet
    item_key: str | None = None
    partition_key: str | None = None
    headers: str | None = None


class SourceTransaction(NamedTuple):
    """Entries of one client that their receivers get together."""

    client: str
    entries: Sequence[NewEntry]


class Written(NamedTuple):
    """The identity of the transaction that wrote entries (see `queues.positions.PositionToken`)."""

    site: str
    branch: str
    transaction: int
    timeline: str = ""


class Write(Protocol):
    """Inserts entries in their order, in the caller's transaction, without committing."""

    def __call__(self, connection: Connection, client: str, entries: Sequence[NewEntry], created_us: int) -> Written:
        """Insert at least one entry; raise `NotInTransactionError` on a connection in autocommit.

        Raises `LinkEndedError` if a link of the entries has ended.
        """
        ...
