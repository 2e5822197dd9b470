"""The limits of rows in one message, and a check of packed rows before they take memory. Pure.

Rows without a payload have two bytes each, and compressed nearly none. So a limit of bytes alone lets a small message
become millions of rows. Source and sink share these constants: no source sends more, and no sink takes more.
"""

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final, NamedTuple

from queues.errors import CorruptFrameError

#: The most rows of one block, and of all blocks in one frame.
MAX_ROWS: Final = 2**18
#: The most ticks or parts of ticks in one batch, and the most blocks in one chunk of a snapshot.
MAX_GROUPS: Final = 2**16
#: Any smaller body or frame takes little memory; in bytes.
COUNTED_FROM: Final = 1024 * 1024

# Values of the wire format, see https://protobuf.dev/programming-guides/encoding.
_VARINT, _SIZED = 0, 2
_LONGEST_VARINT = 10
_FIXED = {1: 8, 5: 4}


class Extent(NamedTuple):
    """The declared content of one frame: its ticks, parts or blocks, its rows, and the unpacked bytes of the rows."""

    groups: int
    rows: int
    bytes: int


def too_many(extent: Extent) -> str:
    """Return why a frame of this *extent* is refused; empty if its counts are within the limits."""
    if extent.rows > MAX_ROWS:
        return f"the frame says {extent.rows} rows, and a frame has at most {MAX_ROWS}: lower tick_rows at the source"
    if extent.groups > MAX_GROUPS:
        return f"the frame holds {extent.groups} ticks or blocks, and a frame has at most {MAX_GROUPS}"
    return ""


def check_count(plain: bytes, rows: int, packed: Collection[int], others: int) -> None:
    """Raise `CorruptFrameError` if the encoded columns *plain* hold more elements than *rows* rows have.

    *packed* are the numbers of the columns that hold all their numbers in one field. The *others* have one field a row
    each. The parser takes up to 16 bytes for each element, so a large body is counted first. The count ends at the
    first element too many.
    """
    fields_left, bytes_left = others * rows + 64, len(packed) * rows * _LONGEST_VARINT
    for field in _fields(plain, 0, len(plain)):
        fields_left -= 1
        if field.number in packed:
            bytes_left -= field.size
        if fields_left < 0 or bytes_left < 0:
            raise CorruptFrameError(f"a block holds more than the {rows} rows that it says")


def check_parts(message: bytes, lists: Collection[int], most: int = MAX_GROUPS) -> None:
    """Raise `CorruptFrameError` if the encoded frame *message* holds more than *most* ticks or blocks.

    *lists* are the numbers of the fields that hold them. The parser takes up to 60 bytes for each, and the shortest has
    two. So a large frame is counted first.
    """
    left = most + 64
    for field in _fields(message, 0, len(message)):
        within = _fields(message, field.at, field.at + field.size) if field.number in lists else ()
        left -= 1 + sum(1 for _ in islice(within, left + 1))
        if left < 0:
            raise CorruptFrameError(f"a frame holds more than {most} ticks or blocks")


class _Field(NamedTuple):
    number: int
    at: int
    size: int


def _fields(encoded: bytes, at: int, end: int) -> Iterator[_Field]:
    """Yield the fields of a message that begins at *at*. The size is 0 for a field that carries no size."""
    while at < end:
        tag, at = _varint(encoded, at)
        kind, size = tag & 7, 0
        if kind == _SIZED:
            size, at = _varint(encoded, at)
        elif kind == _VARINT:
            _, at = _varint(encoded, at)
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise CorruptFrameError(f"a message cannot be read: a field is of kind {kind}")
        yield _Field(tag >> 3, at, size)
        at += size


def _varint(encoded: bytes, at: int) -> tuple[int, int]:
    """Return the number at *at*, and the place after it."""
    value = shift = 0
    for byte in encoded[at : at + _LONGEST_VARINT]:
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise CorruptFrameError("a message cannot be read: a number has no end")
