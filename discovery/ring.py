"""The ring of tokens: Murmur3 hashes of keys, and the places of a ring with leaders and followers. Pure.

The ring is the one of Polar Streams. Kept:

* Cassandra's variant of Murmur3: x64, 128 bits, the first half, signed bytes in the tail.
* Tokens that stay when the ring doubles.
* The next two places as followers.

Mended:

* Places are exact parts of the 64-bit ring. The original multiplies an integer quotient. So there
  the last place is larger, and place 3 of 6 has the token -2048 in place of 0.
"""

from typing import Final, NamedTuple

import mmh3

#: The first token of the ring; the last is `-FIRST - 1`.
FIRST: Final = -(2**63)

_ALL: Final = 2**64
_MASK: Final = _ALL - 1


def token(key: bytes | str) -> int:
    """Return the token of *key*, from -2**63 to 2**63 - 1; a text counts as UTF-8.

    The token equals the function `token()` of Cassandra for a key of that text.
    """
    data = key.encode() if isinstance(key, str) else key
    if data[len(data) & ~15 :].isascii():
        return int(mmh3.hash64(data)[0])
    return _signed_tail(data)


class Ring(NamedTuple):
    """A ring of *size* places; each place leads the tokens from its own token to before the next."""

    size: int

    def token_at(self, place: int) -> int:
        """Return the first token of *place*; places wrap around."""
        return FIRST + -(-(place % self.size) * _ALL // self.size)

    def owner(self, key: bytes | str) -> int:
        """Return the place that leads *key* by default."""
        return self.place(token(key))

    def place(self, at: int) -> int:
        """Return the place that leads the token *at* by default."""
        return (at - FIRST) * self.size // _ALL

    def followers(self, at: int) -> tuple[int, int]:
        """Return the two places after the one that leads the token *at*: the first to take over, and the second."""
        place = self.place(at)
        return (place + 1) % self.size, (place + 2) % self.size


# --- Murmur3 with signed bytes in the tail ------------------------------------------------------------------------

_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


def _signed_tail(data: bytes) -> int:
    """Return the first half of the hash, in Python: libraries have no signed bytes."""
    whole = len(data) & ~15
    h1 = h2 = 0
    for start in range(0, whole, 16):
        h1, h2 = _with_block(h1, h2, data[start : start + 16])
    tail = data[whole:]
    h2 ^= _mixed(_signed_number(tail[8:]), _C2, 33, _C1)
    h1 ^= _mixed(_signed_number(tail[:8]), _C1, 31, _C2)
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    found = _final(h1) + _final(h2) & _MASK
    return found - _ALL if found >> 63 else found


def _with_block(h1: int, h2: int, block: bytes) -> tuple[int, int]:
    k1, k2 = int.from_bytes(block[:8], "little"), int.from_bytes(block[8:], "little")
    h1 = ((_rotated(h1 ^ _mixed(k1, _C1, 31, _C2), 27) + h2) * 5 + 0x52DCE729) & _MASK
    h2 = ((_rotated(h2 ^ _mixed(k2, _C2, 33, _C1), 31) + h1) * 5 + 0x38495AB5) & _MASK
    return h1, h2


def _signed_number(tail: bytes) -> int:
    number = 0
    for index, byte in enumerate(tail):
        number ^= (byte - 256 if byte > 127 else byte) << 8 * index
    return number & _MASK


def _mixed(number: int, first: int, turn: int, second: int) -> int:
    return _rotated(number * first & _MASK, turn) * second & _MASK


def _rotated(number: int, turn: int) -> int:
    return (number << turn | number >> (64 - turn)) & _MASK


def _final(number: int) -> int:
    number = (number ^ number >> 33) * 0xFF51AFD7ED558CCD & _MASK
    number = (number ^ number >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return number ^ number >> 33
