"""An order-independent checksum of rows: a snapshot arrived whole, whatever the order of its parts. Pure.

MurmurHash3 (128 bits, of which 63 count): it finds what was lost, doubled or damaged, not what somebody has forged.
"""

from collections.abc import Iterable

from mmh3 import hash64

_MODULUS = 2**63
# Keeps rows with a key apart from those without one.
_KEYED = 1


def row_checksum(payload: bytes, item_key: str | None) -> int:
    """Return the 63-bit checksum of one row; an empty *item_key* counts as none."""
    return rows_checksum(((payload, item_key),))


def rows_checksum(rows: Iterable[tuple[bytes, str | None]]) -> int:
    """Return the checksums of *rows*, each a payload and its item key, combined."""
    return sum([_hash(payload, item_key) for payload, item_key in rows]) % _MODULUS


def _hash(payload: bytes, item_key: str | None) -> int:
    if not item_key:
        return hash64(payload, signed=False)[0] >> 1
    key = item_key.encode()
    # The length keeps key and payload apart.
    return hash64(b"%d %b%b" % (len(key), key, payload), _KEYED, signed=False)[0] >> 1


def combine(*sums: int) -> int:
    """Return the checksum of several rows or groups of rows taken together; of none it is 0."""
    return sum(sums) % _MODULUS
