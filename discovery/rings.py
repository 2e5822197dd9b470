"""Several rings share the keys of an application: the ring of each key, and the growth to twice the rings. Pure.

Each ring takes an equal part of all tokens. When n rings become 2n, the upper half of the part of ring r moves to
ring n + r. No other key moves. So 1, 2, 4 ... rings are possible, and 3, 6, 12 ...
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from discovery.ring import Ring, token
from queues.errors import ConfigurationError

#: The most rings that share the keys of one application.
MOST: Final = 96
#: The possible numbers of rings, in order.
COUNTS: Final = tuple(sorted(first * 2**n for first in (1, 3) for n in range(7) if first * 2**n <= MOST))

_NUMBERED: Final = re.compile(r"(.+)-(0|[1-9][0-9]?)")


class RingName(NamedTuple):
    """The parts of a ring's site id: `paris-1` is ring 1 of `paris`, and so is `paris-0` or `paris` ring 0."""

    family: str
    number: int


class Share(NamedTuple):
    """The keys of ring *number* among *rings* rings."""

    number: int
    rings: int

    def has(self, key: str) -> bool:
        """Return whether *key* belongs to this ring."""
        return ring_of(key, self.rings) == self.number


#: The share of a single ring, and of a site without one.
WHOLE: Final = Share(0, 1)


def check_rings(rings: int) -> None:
    """Raise `ConfigurationError` unless *rings* rings can share the keys."""
    if rings not in COUNTS:
        *first, last = map(str, COUNTS)
        raise ConfigurationError(f"{rings} rings cannot share the keys evenly: choose {', '.join(first)} or {last}")


def ring_of(key: str, rings: int) -> int:
    """Return the number of the ring that takes *key*, from 0; raise `ConfigurationError` as `check_rings` does."""
    return _order(rings)[Ring(rings).place(token(key))]


def ring_name(site: str) -> RingName:
    """Return the parts of a site id; without a number at its end, the ring is number 0."""
    found = _NUMBERED.fullmatch(site)
    return RingName(site, 0) if found is None else RingName(found[1], int(found[2]))


def site_of(family: str, number: int) -> str:
    """Return the site id of a ring."""
    return f"{family}-{number}"


def share_of(site: str, rings: int) -> Share:
    """Return the share of the ring *site*; raise `ConfigurationError` if the id does not fit the number of rings."""
    check_rings(rings)
    if rings == 1:
        return WHOLE
    number = ring_name(site).number
    if number >= rings:
        raise ConfigurationError(
            f"{site} is the name of ring {number}, but the {rings} rings count from 0: correct one"
        )
    return Share(number, rings)


def in_order(sites: Iterable[str]) -> list[str]:
    """Return the site ids of all rings by their numbers; a single ring may have any name.

    Raises `ConfigurationError` unless the ids are those of one family, numbered from 0 without gaps.
    """
    found = list(sites)
    check_rings(len(found))
    if len(found) == 1:
        return found
    names = sorted((ring_name(site), site) for site in found)
    family = names[0][0].family
    if [name for name, _ in names] != [RingName(family, number) for number in range(len(found))]:
        last = site_of("paris", len(found) - 1)
        raise ConfigurationError(
            f"the rings {', '.join(sorted(found))} have no common name with numbers: "
            f"name {len(found)} rings as paris-0 to {last}"
        )
    return [site for _, site in names]


@lru_cache(maxsize=len(COUNTS))
def _order(rings: int) -> tuple[int, ...]:
    """Return the number of the ring at each place of the tokens."""
    check_rings(rings)
    if rings in (1, 3):
        return tuple(range(rings))
    half = _order(rings // 2)
    return tuple(number for old in half for number in (old, old + rings // 2))
