"""Sets of destinations: their one canonical form and the number that stands for it (DESIGN 3). Pure."""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from queues.errors import UsageError
from queues.names import SET_SEPARATOR, ClientName, SiteId, site_id


class DestinationsError(UsageError, ValueError):
    """No destination was given, or they were not given as a collection of site ids."""


class DestinationSet(NamedTuple):
    """One client's set of destinations; equal sets have equal `number`s on every machine."""

    number: int
    text: str


def destination_set(client: ClientName, destinations: Iterable[str]) -> DestinationSet:
    """Return the canonical set; duplicates count once.

    Raises `DestinationsError` or `InvalidNameError` (both `ValueError`s) when it is empty or malformed.
    """
    return _interned(client, _collected(destinations))


def site_ids(destinations: Iterable[str]) -> list[SiteId]:
    """Return the names of sites in their order, none of them too; raise the errors of `destination_set`."""
    return [site_id(name) for name in _collected(destinations)]


def _collected(destinations: Iterable[str]) -> tuple[str, ...]:
    if isinstance(destinations, str | bytes):
        raise DestinationsError("destinations must be a collection of site ids, not one string: write ['tokyo']")
    return tuple(destinations)


@lru_cache(maxsize=4096)
def _interned(client: ClientName, destinations: tuple[str, ...]) -> DestinationSet:
    if not destinations:
        raise DestinationsError("name at least one destination")
    text = SET_SEPARATOR.join(sorted({site_id(name) for name in destinations}))
    return DestinationSet(set_number(client, text), text)


def set_number(client: ClientName, text: str) -> int:
    """Return the 63-bit number of *client*'s canonical set *text* (a content hash: no allocation, no lock)."""
    digest = blake2b(f"{client}\n{text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def members(text: str) -> tuple[SiteId, ...]:
    """Return the destinations of a canonical set, sorted."""
    return tuple(SiteId(name) for name in text.split(SET_SEPARATOR))
