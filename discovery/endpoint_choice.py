"""Choose one of a site's endpoints for each session, and the next one after a failure. Pure.

The nearest endpoint comes first: one in this process, then one on this machine, then the network. Among equally near
ones the hash of a session decides, so sessions spread over the servers of a site. After a failure or a refusal the
session goes on to the next endpoint, round the list. An absent session looks for its preferred endpoint
after `FIRST_PAUSE`, and moves back once the endpoint can be reached. Each look in vain doubles the pause, up to
`LONGEST_PAUSE`. So does a move back that ends within the pause.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mmh3 import hash64

#: The seconds from leaving the preferred endpoint to the first look for it, and the longest time between two looks.
FIRST_PAUSE: Final = 60.0
LONGEST_PAUSE: Final = 3600.0


#: The distance of each kind of endpoint; every other kind goes over the network.
_DISTANCES: Final = {"local": 0, "ipc": 1}
_NETWORK: Final = 2


def in_order(session: Sequence[str], endpoints: Sequence[str]) -> tuple[str, ...]:
    """Return *endpoints* in the order in which *session* tries them; among equally near ones the hash decides."""
    ordered: list[str] = []
    for distance in sorted({_distance(endpoint) for endpoint in endpoints}):
        equals = [endpoint for endpoint in endpoints if _distance(endpoint) == distance]
        first = preferred(session, len(equals))
        ordered += equals[first:] + equals[:first]
    return tuple(ordered)


def _distance(endpoint: str) -> int:
    return _DISTANCES.get(endpoint.partition(":")[0], _NETWORK)


def preferred(session: Sequence[str], count: int) -> int:
    """Return the number of the preferred endpoint of *count* ones, from 0: Murmur3 of the names of *session*."""
    return hash64("\0".join(session).encode(), signed=False)[0] % count


@dataclass(frozen=True, slots=True)
class EndpointChoice:
    """The endpoint `at` that a session uses; `home` is the preferred one of `count`. Times are in seconds.

    `is_used`: the session has connected to it. From `look_from` on, an absent session looks for `home`. `home_from` is
    the time of the last move back.
    """

    count: int
    home: int
    at: int
    is_used: bool = False
    pause: float = FIRST_PAUSE
    look_from: float = math.inf
    home_from: float = -math.inf

    @property
    def is_away(self) -> bool:
        """Whether the session uses another endpoint than its preferred one."""
        return self.at != self.home

    def used(self) -> "EndpointChoice":
        """Return the choice once the session connects to the endpoint."""
        return replace(self, is_used=True)

    def failed(self, now: float, spread: float = 1.0) -> "EndpointChoice":
        """Return the choice after a failure or refusal at *now*; *spread*, up to 1, shortens the pause.

        A connection that was ended for a move has not failed.
        """
        if self.count == 1 or not self.is_used:
            return self
        following = replace(self, at=(self.at + 1) % self.count, is_used=False)
        if self.is_away:
            return following
        is_short = now - self.home_from < self.pause
        pause = min(2 * self.pause, LONGEST_PAUSE) if is_short else FIRST_PAUSE
        return replace(following, pause=pause, look_from=now + pause * spread)

    def is_due(self, now: float) -> bool:
        """Return whether the session looks for its preferred endpoint at *now*."""
        return self.is_away and now >= self.look_from

    def missed(self, now: float, spread: float = 1.0) -> "EndpointChoice":
        """Return the choice after a look in vain at *now*."""
        pause = min(2 * self.pause, LONGEST_PAUSE)
        return replace(self, pause=pause, look_from=now + pause * spread)

    def moved_back(self, now: float) -> "EndpointChoice":
        """Return the choice once the preferred endpoint can be reached again."""
        return replace(self, at=self.home, is_used=False, home_from=now)


def first_choice(count: int) -> EndpointChoice:
    """Return the choice of a session that has not connected yet, of *count* endpoints in the order of `in_order`."""
    return EndpointChoice(count, 0, 0)
