"""An order-independent checksum of rows: a snapshot arrived whole, whatever the order of its parts. Pure."""

import sys
from array import array
from collections.abc import Iterable
from hashlib import blake2b
from struct import Struct

_MODULUS = 2**63
_LENGTH = Struct(">I").pack


def row_checksum(payload: bytes, item_key: str | None) -> int:
    """Return the 63-bit checksum of one row; an empty *item_key* counts as none."""
    return rows_checksum(((payload, item_key),))


def rows_checksum(rows: Iterable[tuple[bytes, str | None]]) -> int:
    """Return the checksums of *rows*, each a payload and its item key, combined."""
    digests = [
        _keyed(payload, item_key.encode()) if item_key else blake2b(payload, digest_size=8).digest()
        for payload, item_key in rows
    ]
    numbers = array("Q", b"".join(digests))
    if sys.byteorder == "little":
        numbers.byteswap()
    return sum([number >> 1 for number in numbers]) % _MODULUS


def _keyed(payload: bytes, key: bytes) -> bytes:
    # The length keeps key and payload apart, the person keeps keyed rows apart from those without a key.
    return blake2b(_LENGTH(len(key)) + key + payload, digest_size=8, person=b"item_key").digest()


def combine(*sums: int) -> int:
    """Return the checksum of several rows or groups of rows taken together; of none it is 0."""
    return sum(sums) % _MODULUS
