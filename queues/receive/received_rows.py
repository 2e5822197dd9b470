"""The entries of a receive queue: one of them, and several as columns."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple, overload


class ReceivedRow(NamedTuple):
    """One entry of a receive queue; in a snapshot, `seq` and `transaction_seq` are the row number."""

    seq: int
    transaction_seq: int
    committed_us: int
    item_key: str | None
    payload: bytes
    headers: str | None = None
    partition_key: str | None = None


class RowColumns(Sequence[ReceivedRow]):
    """Entries in order, kept as columns; each access makes a `ReceivedRow`.

    A tuple for each entry would take a tenth of a subscriber's time, most of it in the garbage collector.
    """

    __slots__ = ()

    @abstractmethod
    def fields(self) -> Iterator[tuple[Any, ...]]:
        """Yield the fields of each entry, in the order of `ReceivedRow`, without a new tuple for each."""

    def __iter__(self) -> Iterator[ReceivedRow]:
        """Yield every entry."""
        # Half the time of `ReceivedRow._make`.
        return map(tuple.__new__, repeat(ReceivedRow), self.fields())

    @overload
    def __getitem__(self, place: int) -> ReceivedRow: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ReceivedRow]: ...
    def __getitem__(self, place: int | slice) -> ReceivedRow | Sequence[ReceivedRow]:
        """Return one entry, or a list of several."""
        if isinstance(place, slice):
            return [self._at(each) for each in range(*place.indices(len(self)))]
        return self._at(place)

    @abstractmethod
    def _at(self, place: int) -> ReceivedRow:
        """Return one entry; a negative *place* counts from the end."""


class LogRowColumns(RowColumns):
    """Entries of the log, with one column of equal length for each field of `ReceivedRow`."""

    __slots__ = ReceivedRow._fields

    def __init__(
        self,
        seq: Sequence[int],
        transaction_seq: Sequence[int],
        committed_us: Sequence[int],
        item_key: Sequence[str | None],
        payload: Sequence[bytes],
        headers: Sequence[str | None],
        partition_key: Sequence[str | None],
    ) -> None:
        self.seq = seq
        self.transaction_seq = transaction_seq
        self.committed_us = committed_us
        self.item_key = item_key
        self.payload = payload
        self.headers = headers
        self.partition_key = partition_key

    @classmethod
    def joined(cls, parts: Iterable["LogRowColumns"]) -> "LogRowColumns":
        """Return the entries of all *parts*, in their order."""
        columns: list[list[Any]] = [[] for _ in ReceivedRow._fields]
        for part in parts:
            for column, more in zip(columns, part.columns, strict=True):
                column.extend(more)
        return cls(*columns)

    def part(self, begin: int, end: int) -> "LogRowColumns":
        """Return the entries from place *begin* to before place *end*."""
        return LogRowColumns(*(column[begin:end] for column in self.columns))

    def fields(self) -> Iterator[tuple[Any, ...]]:
        """See `RowColumns`."""
        return zip(*self.columns, strict=True)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.payload)

    def _at(self, place: int) -> ReceivedRow:
        return ReceivedRow._make(column[place] for column in self.columns)

    @property
    def columns(self) -> tuple[Sequence[Any], ...]:
        """The columns, in the order of the fields of `ReceivedRow`."""
        return tuple(getattr(self, name) for name in ReceivedRow._fields)
