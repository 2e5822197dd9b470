"""The newest ticks of a store in memory, so that messages to both followers do not read the file again."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from queues.send_log.ring import productions
from queues.send_log.ring.tick_contents import TickContent, weight_of

#: The most ticks in memory, and the most bytes of all together, but at least one tick.
MOST_TICKS: Final = 64
MOST_BYTES: Final = 16 * 1024 * 1024


class _Weighed(NamedTuple):
    """A tick and its bytes, which are counted once."""

    content: TickContent
    weight: int


class RecentTicks:
    """Neighbouring ticks up to the end of a log. One thread keeps ticks, and any number of threads read."""

    def __init__(self) -> None:
        self._ticks: tuple[_Weighed, ...] = ()

    def forget(self) -> None:
        """Know no tick: the log may have other ones now."""
        self._ticks = ()

    def keep(self, after: int, contents: Sequence[TickContent]) -> None:
        """Know *contents* after tick number *after*, in place of others there; they are on the disk."""
        before = [each for each in self._ticks if each.content.tick.number <= after]
        follows = not before or before[-1].content.tick.number == after
        new = [_Weighed(content, weight_of(content)) for content in contents]
        self._ticks = _newest([*(before if follows else ()), *new])

    @property
    def newest(self) -> TickContent | None:
        """The last tick of the log; None if it is not known."""
        ticks = self._ticks
        return ticks[-1].content if ticks else None

    def read(self, after: int, most: int, most_bytes: int) -> list[TickContent]:
        """Return the ticks after number *after* like `TokenStore.read`; none if the next one is not known."""
        ticks = self._ticks
        first = after + 1 - ticks[0].content.tick.number if ticks else -1
        if first < 0:
            return []
        found: list[TickContent] = []
        size = requests = 0
        for content, weight in ticks[first : first + most]:
            size += weight
            requests += len(content.productions)
            if found and (size > most_bytes or requests > productions.MOST_PRODUCTIONS):
                break
            found.append(content)
        return found


def _newest(ticks: Sequence[_Weighed]) -> tuple[_Weighed, ...]:
    """Return the last of *ticks* within the limits. Pure."""
    size, count = 0, 0
    for _, weight in reversed(ticks[-MOST_TICKS:]):
        size += weight
        if count and size > MOST_BYTES:
            break
        count += 1
    return tuple(ticks[len(ticks) - count :])
