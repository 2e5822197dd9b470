"""An order-independent checksum of rows: a snapshot arrived whole, whatever the order of its parts. Pure.

MurmurHash3 (128 bits, of which 63 count): it finds what was lost, doubled or damaged, not what somebody has forged.
"""

from collections.abc import Iterable

from mmh3 import hash as hash32
from mmh3 import hash64

_MODULUS = 2**63


def row_checksum(payload: bytes, item_key: str | None) -> int:
    """Return the 63-bit checksum of one row; an empty *item_key* counts as none."""
    return rows_checksum(((payload, item_key),))


def rows_checksum(rows: Iterable[tuple[bytes, str | None]]) -> int:
    """Return the checksums of *rows*, each a payload and its item key, combined.

    The key is the seed of the payload's hash, so that the payload need not be copied to stand beside it.
    """
    seeded = [hash64(payload, hash32(key, 1, False) if key else 0, signed=False)[0] >> 1 for payload, key in rows]
    return sum(seeded) % _MODULUS


def combine(*sums: int) -> int:
    """Return the checksum of several rows or groups of rows taken together; of none it is 0."""
    return sum(sums) % _MODULUS
