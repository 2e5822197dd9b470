"""Sets of destinations: the canonical text of a set and its number. Pure.

See docs/design.md, "Payload once".
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from queues.errors import DestinationsError
from queues.names import SET_SEPARATOR, ClientName, SiteId, site_id

# The most names of a set, and the most sets of that size in memory. A number of sets alone would limit no bytes.
_SIZES: Final = ((32, 4096), (1_024, 64), (16_384, 4))


class DestinationSet(NamedTuple):
    """One client's set of destinations; equal sets have the same `number` on every machine."""

    number: int
    text: str


def destination_set(client: ClientName, destinations: Iterable[str]) -> DestinationSet:
    """Return the canonical set; duplicates count once.

    Raises `DestinationsError` if the set is empty or no collection, `InvalidNameError` for a malformed name (both are
    `ValueError`s).
    """
    names = _collected(destinations)
    try:
        return _maker(len(names))(client, names)
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


def _made(client: ClientName, destinations: tuple[str, ...]) -> DestinationSet:
    if not destinations:
        raise DestinationsError("name at least one destination")
    text = SET_SEPARATOR.join(sorted({site_id(name) for name in destinations}))
    return DestinationSet(set_number(client, text), text)


_REMEMBERING: Final = tuple((names, lru_cache(maxsize=sets)(_made)) for names, sets in _SIZES)


def _maker(names: int) -> Callable[[ClientName, tuple[str, ...]], DestinationSet]:
    """Return the function that makes a set of so many *names*; the largest sets are made anew each time."""
    for most, made in _REMEMBERING:
        if names <= most:
            return made
    return _made


def set_number(client: ClientName, text: str) -> int:
    """Return the 63-bit number of *client*'s canonical set *text*: a content hash, so it needs no lock."""
    digest = blake2b(f"{client}\n{text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def members(text: str) -> tuple[SiteId, ...]:
    """Return the destinations in the canonical text of a set, sorted."""
    return tuple(SiteId(name) for name in text.split(SET_SEPARATOR))
