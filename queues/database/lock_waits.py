"""The part of the `Dialect` port for own statements that wait for locks of others."""

from collections.abc import Collection
from typing import NamedTuple, Protocol

from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPIConnection


class LockWait(NamedTuple):
    """A connection whose statement waits for a lock.

    `number` is that of the connection at its database. `table` is empty if the lock is that of rows. `holders` are the
    connections that hold the lock or wait for it before, in words.
    """

    number: int
    table: str
    holders: str


class LockWaits(Protocol):
    """Own statements that wait for locks of others, without a limit of time."""

    def number(self, driver: DBAPIConnection) -> int | None:
        """Return the number of a new connection at its database; None if each wait for a lock has a limit."""
        ...

    def lock_waits(self, connection: Connection, numbers: Collection[int]) -> list[LockWait]:
        """Return the waits of the connections with these *numbers* that have the role and the site of *connection*."""
        ...

    def end_waits(self, connection: Connection, waits: Collection[LockWait]) -> None:
        """End the connections of *waits*: their statements fail, and nothing of their transactions is stored."""
        ...
