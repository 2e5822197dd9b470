"""What browsing needs of a database's log-entry queue: the `LogBrowsing` port."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from sqlalchemy import Connection, Table

from queues.errors import UsageError
from queues.positions import Mark


class Cursor(NamedTuple):
    """A place in the order of browsing: by transaction, within it by row."""

    transaction: int
    id: int

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Undo `str()`; an empty text is before everything. Raises `UsageError` for any other."""
        if not text:
            return cls(0, 0)
        transaction, _, row = text.partition(".")
        if not (transaction.isdecimal() and row.isdecimal()):
            raise UsageError(f"{text!r} is not a position in the log (<transaction>.<row>): use one that is shown")
        return cls(int(transaction), int(row))

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return f"{self.transaction}.{self.id}"


class StoredEntry(NamedTuple):
    """One stored entry without its payload. `destinations` is None where the dictionary holds the set."""

    transaction: int
    id: int
    slot: int
    client: str
    tag_set: int
    destinations: str | None
    item_key: str | None
    partition_key: str | None
    created_us: int
    size: int

    @property
    def cursor(self) -> Cursor:
        """Where it is."""
        return Cursor(self.transaction, self.id)


class LogBrowsing(Protocol):
    """Reads of committed entries, in the caller's transaction; each costs what its limit allows."""

    @property
    def tables(self) -> Sequence[Table]:
        """The tables that hold entries."""
        ...

    def entries(
        self, connection: Connection, after: Cursor, floors: Mapping[int, int] | None, limit: int
    ) -> list[StoredEntry]:
        """Return the first *limit* entries after a place; with *floors*, of those tag sets only.

        A floor is the first transaction (SQLite: row) of its set that is wanted.
        """
        ...

    def count(self, connection: Connection, floors: Mapping[int, int] | None, limit: int) -> int:
        """Count the entries that `entries` would return from the beginning, up to about *limit*."""
        ...

    def payload(self, connection: Connection, entry: StoredEntry, size: int) -> bytes:
        """Return the first *size* bytes of an entry's payload."""
        ...

    def orders(self, connection: Connection, transactions: Iterable[int]) -> Mapping[int, int]:
        """Return the commit sequence of each transaction, where the database has one."""
        ...

    def committed(self, connection: Connection) -> Mark:
        """Return the mark that covers everything which is committed now."""
        ...

    def uncovered(self, connection: Connection, after: Mark | None, upto: Mark, limit: int) -> int:
        """Count the entries that *upto* covers and *after*, the mark of a tick, does not; up to *limit*."""
        ...
