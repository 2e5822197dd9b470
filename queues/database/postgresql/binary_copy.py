"""Encode rows in PostgreSQL's binary format, column by column, which is faster than value by value."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from struct import Struct, calcsize
from typing import Any

_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TAIL = b"\xff\xff"
_LENGTH = Struct("!i").pack
_COUNT = Struct("!h").pack
_NULL = _LENGTH(-1)

#: One column as byte strings: each field is one byte string, or two (length, value).
Pieces = tuple[Iterable[bytes], ...]


def binary_copy(types: Sequence[str], columns: Sequence[Sequence[object]], encoding: str = "utf-8") -> bytes:
    """Encode at least one row, given as *columns* of the PostgreSQL *types*, for one COPY.

    *encoding* is that of the connection: the server reads texts in it.
    """
    pieces: list[Iterable[bytes]] = []
    head = _Head(_COUNT(len(columns)), len(columns[0]))
    for kind, values in zip(types, columns, strict=True):
        if kind != "bytea" and values.count(values[0]) == len(values):
            head.add_same(b"".join(chain.from_iterable(_fields(kind, values[:1], encoding))))
        elif None in values:
            pieces += [*head.packed(), *_fields(kind, values, encoding)]
        elif kind in _LAYOUTS:
            head.add_numbers(_LAYOUTS[kind], values)
        else:
            found = _encoded(values, encoding) if kind == "text" else values
            head.add_lengths(found)
            pieces += [*head.packed(), found]  # type: ignore[list-item]  # bytes by now
    pieces += head.packed()
    return b"".join((_HEAD, *chain.from_iterable(zip(*pieces, strict=True)), _TAIL))


class _Head:
    """The fixed-width fields before the next bytes column, packed as one chunk per row.

    Few chunks per row matter, because the time grows with their number.
    """

    def __init__(self, same: bytes, rows: int) -> None:
        self._rows = rows
        self._begin(same)

    def _begin(self, same: bytes) -> None:
        self._layout, self._same = "!", same
        self._values: list[Iterable[Any]] = []

    def add_same(self, field: bytes) -> None:
        """Add a field that is the same in every row."""
        self._same += field

    def add_numbers(self, layout: str, values: Iterable[object]) -> None:
        """Add a number to every row, with its width in front."""
        self.add_same(_LENGTH(calcsize(f"!{layout}")))
        self._add(layout, values)

    def add_lengths(self, values: Iterable[Any]) -> None:
        """Add the lengths of *values*; the caller adds the values themselves."""
        self._add("i", map(len, values))

    def _add(self, layout: str, values: Iterable[object]) -> None:
        self._layout += f"{len(self._same)}s{layout}"
        self._values += [repeat(self._same), values]
        self._same = b""

    def packed(self) -> list[Iterable[bytes]]:
        """Return the chunk of every row (an empty list if there are no fields), and begin the next chunk."""
        if self._same:
            self._layout += f"{len(self._same)}s"
            self._values.append(repeat(self._same, self._rows))
        layout, values = self._layout, self._values
        self._begin(b"")
        return [map(Struct(layout).pack, *values)] if values else []


def binary_array(kind: str, values: Sequence[object], encoding: str) -> bytes:
    """Encode at least one value as an array of the PostgreSQL type *kind*; *encoding* as for `binary_copy`."""
    head = _ARRAY_HEAD(1, None in values, _NUMBERS[kind], len(values), 1)
    return b"".join((head, *chain.from_iterable(zip(*_fields(kind, values, encoding), strict=True))))


#: Number of dimensions, whether there are nulls, type number, length, and first index.
_ARRAY_HEAD = Struct("!iiIii").pack
_NUMBERS = {"smallint": 21, "integer": 23, "bigint": 20, "text": 25, "bytea": 17}
_LAYOUTS = {"smallint": "h", "integer": "i", "bigint": "q"}


def _integers(layout: str) -> Callable[[Sequence[Any]], Pieces]:
    both = Struct(f"!i{layout}")
    width = both.size - 4

    def fields(values: Sequence[Any]) -> Pieces:
        pack = both.pack
        return ([_NULL if value is None else pack(width, value) for value in values],)

    return fields


def _fields(kind: str, values: Sequence[Any], encoding: str) -> Pieces:
    return _KINDS[kind](_encoded(values, encoding) if kind == "text" else values)


def _encoded(values: Sequence[Any], encoding: str) -> list[bytes | None]:
    return [None if value is None else value.encode(encoding) for value in values]


def _bytes(values: Sequence[Any]) -> Pieces:
    if None in values:
        return [_NULL if value is None else _LENGTH(len(value)) for value in values], [value or b"" for value in values]
    return map(_LENGTH, map(len, values)), values


_KINDS: dict[str, Callable[[Sequence[Any]], Pieces]] = {
    **{kind: _integers(layout) for kind, layout in _LAYOUTS.items()},
    "text": _bytes,
    "bytea": _bytes,
}
