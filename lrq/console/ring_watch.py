"""Watch the members of one ring for all tabs of the console: one thread asks them, again and again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lrq.cli.ring.members import MemberView, ring_trouble
from lrq.console.links import Tone
from lrq.console.repeated import Repeated
from queues.clock import SYSTEM_CLOCK, Clock, now_us
from queues.words import in_words

#: Asks all members of a ring; one that does not answer is a part of the result.
AskMembers = Callable[[], Sequence[MemberView]]


@dataclass(frozen=True, slots=True)
class WatchedRing:
    """The last states of a ring's members, by rank; `trouble` says why the ring is not whole, empty if it is.

    `key` names the site on the pages. `read_us` is the time of the last answer, 0 before the first.
    """

    key: str
    members: tuple[MemberView, ...] = ()
    trouble: str = ""
    read_us: int = 0

    @property
    def leader(self) -> MemberView | None:
        """The member that leads, as it says itself; None if none does."""
        return next((each for each in self.members if each.status and each.status.leader == each.rank), None)

    def lacking(self, rank: int) -> int | None:
        """Return how many of the leader's ticks are not on the disk of the follower *rank*, as the leader knows."""
        told = None if self.leader is None else self.leader.status
        if told is None or rank == told.rank or rank >= len(told.held):
            return None
        return max(told.newest - told.held[rank], 0)


def member_tone(view: MemberView) -> Tone:
    """Return the colour of a member."""
    if view.status is None or view.status.alarm:
        return Tone.BAD
    if view.status.trouble:
        return Tone.WARN
    return Tone.GOOD if view.status.role == "leading" else Tone.BUSY


class RingWatch:
    """The members of the ring of the site *key*; the thread of `repeated` asks them."""

    def __init__(
        self,
        key: str,
        ask: AskMembers,
        *,
        on_change: Callable[[], None] = lambda: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Prepare; *on_change* is called after each round, in the thread of the watch."""
        self.key = key
        self._ask = ask
        self._view = WatchedRing(key)
        self.repeated = Repeated(f"console-ring-{key}", self._read, on_change, clock)

    def look(self) -> WatchedRing:
        """Return the last view, and ask more often for a while."""
        self.repeated.attend()
        return self._view

    def _read(self) -> None:
        try:
            members = tuple(self._ask())
        except Exception as error:  # noqa: BLE001 - of a certificate, say; the watch goes on, and the page shows it
            self._view = replace(self._view, trouble=in_words(error))
        else:
            self._view = WatchedRing(self.key, members, ring_trouble(members), now_us())
