"""The ticks of one token at one member, told by the beginnings of their generations. Pure.

Ticks are numbered without gaps. Each generation has one leader, and its first tick stands at one number. So two members
with the same tick of a generation have the same ticks before it.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from queues.errors import ProtocolError


class TickMark(NamedTuple):
    """A tick: the generation that took it, and its number. A later generation makes the longer log."""

    generation: int
    seq: int


#: The place before the first tick.
NO_TICK: Final = TickMark(0, 0)


class GenerationStart(NamedTuple):
    """The first tick of a generation, its seal, has the number `seal`."""

    generation: int
    seal: int


@dataclass(frozen=True, slots=True)
class TickHistory:
    """The ticks 1 to `end`, by the generations that took them.

    Invariant: generations and seals grow, the first seal is 1, and no seal is above `end`.
    """

    starts: tuple[GenerationStart, ...] = ()
    end: int = 0

    def __post_init__(self) -> None:
        """Raise `ProtocolError` if the invariant is broken: the numbers come from another member."""
        seals = [start.seal for start in self.starts]
        is_growing = all(a.generation < b.generation and a.seal < b.seal for a, b in pairwise(self.starts))
        if not is_growing or bool(self.end) != bool(seals) or (seals and (seals[0] != 1 or seals[-1] > self.end)):
            raise ProtocolError(f"a history of ticks contradicts itself: {self.starts} up to {self.end}")

    @property
    def newest(self) -> TickMark:
        """The last tick."""
        return self.mark_at(self.end)

    def mark_at(self, seq: int) -> TickMark:
        """Return the tick with the number *seq*, which is there; `NO_TICK` for 0."""
        for start in reversed(self.starts):
            if start.seal <= seq:
                return TickMark(start.generation, seq)
        return NO_TICK

    def holds(self, mark: TickMark) -> bool:
        """Return whether the tick is there."""
        return mark.seq <= self.end and self.mark_at(mark.seq) == mark

    def after(self, seq: int, most: int) -> tuple[TickMark, ...]:
        """Return the first *most* ticks after the number *seq*."""
        return tuple(map(self.mark_at, range(seq + 1, min(self.end, seq + most) + 1)))

    def until(self, seq: int) -> "TickHistory":
        """Return the ticks up to the number *seq*."""
        if seq >= self.end:
            return self
        return TickHistory(tuple(start for start in self.starts if start.seal <= seq), min(seq, self.end))

    def followed_by(self, ticks: tuple[TickMark, ...]) -> "TickHistory":
        """Return this history with *ticks* at its end; raise `ProtocolError` if they do not follow."""
        starts, end = list(self.starts), self.end
        for tick in ticks:
            if tick.seq != end + 1:
                raise ProtocolError(f"tick {tick.seq} does not follow tick {end}")
            if starts and tick.generation < starts[-1].generation:
                raise ProtocolError(f"tick {tick.seq} of generation {tick.generation} follows a later generation")
            if not starts or starts[-1].generation != tick.generation:
                starts.append(GenerationStart(*tick))
            end = tick.seq
        return _sound(tuple(starts), end)

    def common_end(self, other: "TickHistory") -> int:
        """Return the number of the last tick that both histories hold, 0 for none."""
        known = set(other.starts)
        shared = [start for start in self.starts if start in known]
        return min(_last_of(self, shared[-1]), _last_of(other, shared[-1])) if shared else 0

    def first_difference(self, ticks: tuple[TickMark, ...]) -> int:
        """Return how many of *ticks*, which begin within or right after this history, it holds already."""
        return next((count for count, tick in enumerate(ticks) if not self.holds(tick)), len(ticks))


def _sound(starts: tuple[GenerationStart, ...], end: int) -> TickHistory:
    """Return a history that follows a sound one: a check of all generations at each tick would take too long."""
    made = object.__new__(TickHistory)
    object.__setattr__(made, "starts", starts)
    object.__setattr__(made, "end", end)
    return made


#: The log of a store that is new.
EMPTY: Final = TickHistory()


def _last_of(history: TickHistory, start: GenerationStart) -> int:
    later = history.starts.index(start) + 1
    return history.starts[later].seal - 1 if later < len(history.starts) else history.end
