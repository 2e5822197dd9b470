"""An order-independent checksum of rows: a snapshot arrived whole, whatever the order of its parts. Pure."""

from collections.abc import Iterable
from hashlib import blake2b

_MODULUS = 2**63


def row_checksum(payload: bytes, item_key: str | None) -> int:
    """Return the 63-bit checksum of one row; an empty *item_key* counts as none."""
    return rows_checksum(((payload, item_key),))


def rows_checksum(rows: Iterable[tuple[bytes, str | None]]) -> int:
    """Return the checksums of *rows*, each a payload and its item key, combined."""
    total = 0
    number = int.from_bytes
    for payload, item_key in rows:
        if not item_key:
            digest = blake2b(payload, digest_size=8)
        else:
            key = item_key.encode()
            # The length keeps key and payload apart, the person keeps keyed rows apart from those without a key.
            digest = blake2b(len(key).to_bytes(4, "big") + key, digest_size=8, person=b"item_key")
            digest.update(payload)
        total += number(digest.digest(), "big") >> 1
    return total % _MODULUS


def combine(*sums: int) -> int:
    """Return the checksum of several rows or groups of rows taken together; of none it is 0."""
    return sum(sums) % _MODULUS
