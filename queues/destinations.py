"""Sets of destinations: the canonical text of a set and its number. Pure.

See docs/design.md, "Payload once".
"""

import threading
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from queues.errors import DestinationsError
from queues.names import SET_SEPARATOR, ClientName, SiteId, site_id
from queues.weighted_cache import WeightedCache

#: Sets of up to so many names are remembered by their number, which limits their bytes too.
_FEW: Final = 32
#: The most names of larger sets in memory. Each takes up to 250 bytes.
MAX_REMEMBERED_NAMES: Final = 65_536


class DestinationSet(NamedTuple):
    """One client's set of destinations; equal sets have the same `number` on every machine."""

    number: int
    text: str


_large: Final[WeightedCache[tuple[ClientName, tuple[str, ...]], DestinationSet]] = WeightedCache(MAX_REMEMBERED_NAMES)
_guard: Final = threading.Lock()


def destination_set(client: ClientName, destinations: Iterable[str]) -> DestinationSet:
    """Return the canonical set; duplicates count once.

    Raises `DestinationsError` if the set is empty or no collection, `InvalidNameError` for a malformed name (both are
    `ValueError`s).
    """
    names = _collected(destinations)
    try:
        return _interned(client, names) if len(names) <= _FEW else _remembered(client, names)
    except TypeError:
        # A name that cannot be hashed is none.
        for name in names:
            site_id(name)
        raise


def site_ids(destinations: Iterable[str]) -> list[SiteId]:
    """Validate site ids, keeping their order; the list may be empty. Raises the errors of `destination_set`."""
    return [site_id(name) for name in _collected(destinations)]


def _collected(destinations: Iterable[str]) -> tuple[str, ...]:
    if isinstance(destinations, str | bytes):
        raise DestinationsError("destinations must be a collection of site ids, not one string: write ['tokyo']")
    try:
        return tuple(destinations)
    except TypeError:
        if isinstance(destinations, Iterable):
            raise
        kind = type(destinations).__name__
        raise DestinationsError(f"destinations must be a collection of site ids, not {kind}: write ['tokyo']") from None


@lru_cache(maxsize=4096)
def _interned(client: ClientName, destinations: tuple[str, ...]) -> DestinationSet:
    """Return a set of few names, such as nearly each entry has."""
    return _made(client, destinations)


def _remembered(client: ClientName, destinations: tuple[str, ...]) -> DestinationSet:
    """Return a set of many names; sets may be so large that their number limits no memory."""
    with _guard:
        found = _large.get((client, destinations))
    if found is None:
        found = _made(client, destinations)
        with _guard:
            _large.put((client, destinations), found, len(destinations))
            _large.trim()
    return found


def _made(client: ClientName, destinations: tuple[str, ...]) -> DestinationSet:
    if not destinations:
        raise DestinationsError("name at least one destination")
    text = SET_SEPARATOR.join(sorted({site_id(name) for name in destinations}))
    return DestinationSet(set_number(client, text), text)


def set_number(client: ClientName, text: str) -> int:
    """Return the 63-bit number of *client*'s canonical set *text*: a content hash, so it needs no lock."""
    digest = blake2b(f"{client}\n{text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def members(text: str) -> tuple[SiteId, ...]:
    """Return the destinations in the canonical text of a set, sorted."""
    return tuple(SiteId(name) for name in text.split(SET_SEPARATOR))
