"""Rows as PostgreSQL takes them in its binary format, made column by column: quicker than one value at a time."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from struct import Struct
from typing import Any

_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TAIL = b"\xff\xff"
_LENGTH = Struct("!i").pack
_NULL = _LENGTH(-1)

#: One column of a batch as byte strings, each field in one piece or in two: length, value.
Pieces = tuple[Iterable[bytes], ...]


def binary_copy(types: Sequence[str], columns: Sequence[Sequence[object]]) -> bytes:
    """Return rows, given as *columns* of the PostgreSQL *types*, as one COPY; there must be at least one row."""
    count = len(columns[0])
    pieces: list[Iterable[bytes]] = []
    # Neighbours that are the same in all rows are one piece: what counts is how many pieces a row has.
    same = Struct("!h").pack(len(columns))
    for kind, values in zip(types, columns, strict=True):
        if kind != "bytea" and values.count(values[0]) == count:
            same += b"".join(chain.from_iterable(_KINDS[kind](values[:1])))
            continue
        if same:
            pieces.append(repeat(same, count))
            same = b""
        pieces += _KINDS[kind](values)
    pieces.append(repeat(same, count))
    return b"".join((_HEAD, *chain.from_iterable(zip(*pieces, strict=True)), _TAIL))


def binary_array(kind: str, values: Sequence[object]) -> bytes:
    """Return *values*, one at least, as an array of the PostgreSQL type *kind*."""
    head = _ARRAY_HEAD(1, None in values, _NUMBERS[kind], len(values), 1)
    return b"".join((head, *chain.from_iterable(zip(*_KINDS[kind](values), strict=True))))


#: Dimensions, whether there are nulls, the type's number, and of the only dimension the length and the first index.
_ARRAY_HEAD = Struct("!iiIii").pack
_NUMBERS = {"smallint": 21, "integer": 23, "bigint": 20, "text": 25, "bytea": 17}


def _integers(layout: str) -> Callable[[Sequence[Any]], Pieces]:
    both = Struct(f"!i{layout}")
    width = both.size - 4

    def fields(values: Sequence[Any]) -> Pieces:
        pack = both.pack
        return ([_NULL if value is None else pack(width, value) for value in values],)

    return fields


def _texts(values: Sequence[Any]) -> Pieces:
    return _bytes([None if value is None else value.encode() for value in values])


def _bytes(values: Sequence[Any]) -> Pieces:
    if None in values:
        return [_NULL if value is None else _LENGTH(len(value)) for value in values], [value or b"" for value in values]
    return map(_LENGTH, map(len, values)), values


_KINDS: dict[str, Callable[[Sequence[Any]], Pieces]] = {
    "smallint": _integers("h"),
    "integer": _integers("i"),
    "bigint": _integers("q"),
    "text": _texts,
    "bytea": _bytes,
}
