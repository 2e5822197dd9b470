"""An order-independent checksum of rows: a snapshot arrived whole, whatever the order of its parts. Pure."""

from hashlib import blake2b

_MODULUS = 2**63


def row_checksum(payload: bytes, item_key: str | None) -> int:
    """Return the 63-bit checksum of one row; an empty *item_key* counts as none."""
    if not item_key:
        digest = blake2b(payload, digest_size=8)
    else:
        key = item_key.encode()
        # The length keeps key and payload apart, the person keeps keyed rows apart from those without a key.
        digest = blake2b(len(key).to_bytes(4, "big") + key, digest_size=8, person=b"item_key")
        digest.update(payload)
    return int.from_bytes(digest.digest(), "big") >> 1


def combine(*sums: int) -> int:
    """Return the checksum of several rows or groups of rows taken together; of none it is 0."""
    return sum(sums) % _MODULUS
