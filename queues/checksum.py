"""An order-independent checksum of rows: the parts of a snapshot may arrive in any order. Pure.

MurmurHash3, 63 of its 128 bits: the checksum finds lost, repeated and damaged rows, but not forged ones.
"""

from collections.abc import Iterable

from mmh3 import hash as hash32
from mmh3 import hash64

_MODULUS = 2**63


def rows_checksum(rows: Iterable[tuple[bytes, str | None]]) -> int:
    """Return the 63-bit checksum of *rows*, each a payload and its item key; an empty key counts as none.

    The key's hash is the seed of the payload's hash, so the two are never copied into one buffer.
    """
    seeded = [hash64(payload, hash32(key, 1, False) if key else 0, signed=False)[0] >> 1 for payload, key in rows]
    return sum(seeded) % _MODULUS


def combine(*sums: int) -> int:
    """Return the checksum of all rows behind *sums*: the sum modulo 2**63; 0 for no sums."""
    return sum(sums) % _MODULUS
