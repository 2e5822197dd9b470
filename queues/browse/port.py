"""The reads that browsing needs from the send log of each database: the port `LogBrowsing`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from sqlalchemy import Connection, Table

from queues.errors import UsageError
from queues.positions import Visibility, is_number


class Cursor(NamedTuple):
    """A place in the order of browsing: by transaction, then by row."""

    transaction: int
    id: int

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Parse the text of `str()`; an empty text is the beginning. Raises `UsageError` if it is malformed."""
        if not text:
            return cls(0, 0)
        transaction, _, row = text.partition(".")
        if not (is_number(transaction) and is_number(row)):
            raise UsageError(f"{text!r} is not a position in the log (<transaction>.<row>): use one that is shown")
        return cls(int(transaction), int(row))

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return f"{self.transaction}.{self.id}"


class StoredEntry(NamedTuple):
    """One stored entry without its payload. `destinations` is None if only the dictionary holds the set."""

    transaction: int
    id: int
    partition: int
    client: str
    tag_set: int
    destinations: str | None
    item_key: str | None
    partition_key: str | None
    created_us: int
    size: int
    headers: str | None

    @property
    def cursor(self) -> Cursor:
        """The entry's place in the order of browsing."""
        return Cursor(self.transaction, self.id)


class LogBrowsing(Protocol):
    """Reads of committed entries in the caller's transaction; the cost of each is bounded by its limit."""

    @property
    def tables(self) -> Sequence[Table]:
        """The tables that hold entries."""
        ...

    def entries(
        self, connection: Connection, after: Cursor, floors: Mapping[int, int] | None, limit: int
    ) -> list[StoredEntry]:
        """Return the first *limit* entries after a place; with *floors*, only entries of these tag sets.

        *floors* maps the number of a tag set to its first wanted transaction (SQLite: row).
        """
        ...

    def count(self, connection: Connection, floors: Mapping[int, int] | None, limit: int) -> int:
        """Count the entries that `entries` would return from the beginning, up to about *limit*."""
        ...

    def payload(self, connection: Connection, entry: StoredEntry, size: int) -> bytes:
        """Return the first *size* bytes of an entry's payload."""
        ...

    def orders(self, connection: Connection, transactions: Iterable[int]) -> Mapping[int, int]:
        """Return the commit sequence of each transaction; empty if the database has none."""
        ...

    def committed(self, connection: Connection) -> Visibility:
        """Return the visibility that covers all rows committed now."""
        ...

    def uncovered(self, connection: Connection, after: Visibility | None, upto: Visibility, limit: int) -> int:
        """Count the entries that *upto* covers and *after*, the visibility of a tick, does not; up to *limit*."""
        ...
