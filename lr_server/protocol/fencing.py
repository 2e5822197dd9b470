"""Decide whether a session outbids a generation that its sink knows and this site has not reached. Pure.

A sink refuses generations below the newest that it has seen. A site whose database was restored is behind, so its
session leaps to the next generation of that sink. Another installation with the same site id leaps too. So leaps are
rare and few, and later only an operator helps.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from sink.protocol.log_rules import LARGEST_GENERATION

#: The most leaps of a session, each within `_FORGET_US` of the one before.
MOST_LEAPS: Final = 5
_FORGET_US: Final = 3600 * 1_000_000


class Fence(NamedTuple):
    """A session's lead over the generation of the site's lease, and the leaps that made the lead.

    `leaped_us` is the time of the last leap, in microseconds since 1970. After a refusal beyond the last leap, `leaps`
    is above `MOST_LEAPS`.
    """

    lead: int = 0
    leaps: int = 0
    leaped_us: int = 0

    @property
    def is_spent(self) -> bool:
        """Whether the session leaps no more, until a sink accepts its generation as it is."""
        return self.leaps > MOST_LEAPS


@dataclass(frozen=True, slots=True)
class Outbidding:
    """The refusal of one session: `told` is the session's generation, and `known` the newest of the sink."""

    site: str
    sink: str
    told: int
    known: int


@dataclass(frozen=True, slots=True)
class Leap:
    """Store this fence, then negotiate again with the next generation."""

    fence: Fence
    reason: str


@dataclass(frozen=True, slots=True)
class Stay:
    """Keep the generation, and store this fence; the reason says how to help."""

    fence: Fence
    reason: str


def decide_leap(fence: Fence, refused: Outbidding, *, now_us: int, pause_us: int) -> Leap | Stay:
    """Return the reaction to a refusal as too old; two leaps are at least *pause_us* apart.

    A leap goes exactly one beyond the generation that the sink knows.
    """
    sink, told, known = refused.sink, refused.told, refused.known
    if not known:
        return Stay(
            fence, f"{sink} refuses generation {told} as replaced, without the newer one: upgrade lrq at {sink}"
        )
    if known < told:
        return Stay(
            fence, f"{sink} refuses generation {told} as replaced, but knows {known} only: lrq at {sink} is defective"
        )
    if known >= LARGEST_GENERATION:
        return Stay(fence, f"{sink} knows generation {known}, the last one: {_reset(refused)}")
    since = now_us - fence.leaped_us
    leaps = fence.leaps if fence.is_spent or since < _FORGET_US else 0
    if leaps >= MOST_LEAPS or (leaps and 0 <= since < pause_us):
        stopped = fence._replace(leaps=MOST_LEAPS + 1) if leaps >= MOST_LEAPS else fence
        words = f"{_twin(refused)}: {sink} knows generation {known}; stop one of both, then {_reset(refused)}"
        return Stay(stopped, words)
    words = f"{sink} has seen generation {known} of this site: the session goes on as {known + 1}, not as {told}"
    if leaps:
        words = f"{words}; {_twin(refused)}"
    return Leap(Fence(fence.lead + known + 1 - told, leaps + 1, now_us), words)


def _twin(refused: Outbidding) -> str:
    return f"another installation uses the site id {refused.site!r}"


def _reset(refused: Outbidding) -> str:
    return f"run `lrq fence reset {refused.site}` at {refused.sink}"
