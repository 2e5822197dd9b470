"""Writing entries into the log-entry queue, inside the application's transaction: the client's side."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sqlalchemy import Connection

from queues.destinations import DestinationSet


class NewEntry(NamedTuple):
    """One entry as the application gave it, checked."""

    payload: bytes
    destinations: DestinationSet
    item_key: str | None = None
    partition_key: str | None = None


class Written(NamedTuple):
    """What names the transaction that wrote (see `queues.positions.PositionToken`)."""

    site: str
    branch: str
    transaction: int


class Write(Protocol):
    """Inserts entries in their order, in the caller's transaction: never commits, opens no connection."""

    def __call__(self, connection: Connection, client: str, entries: Sequence[NewEntry], created_us: int) -> Written:
        """Insert *entries* (at least one); raise `NotInTransactionError` where statements commit by themselves."""
        ...
