"""The growth to twice the rings in a fault run, by the steps of `lrq ring resize`."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from tests.faults.rings_journals import JournalOfRings
from tests.faults.rings_machines import Machines, WatchedRing
from tests.system.ring_sites import RANKS

#: Only these ranks lead, so only they can tell that a ring is drained.
_LEADING = (0, 1)


class Growth:
    """The steps that are left; `know` lets one producer know all rings."""

    def __init__(
        self, machines: Machines, journals: Sequence[JournalOfRings], know: Callable[[JournalOfRings, bool], None]
    ) -> None:
        """Plan the growth; the first one of *journals* knows all rings from the beginning, the others after step 3."""
        self._machines = machines
        first, self.rings = [*machines.rings], 2 * len(machines.rings)
        self._steps = deque[tuple[str, Callable[[], bool]]]()
        for _ in first:
            self._plan("found a ring", self._found)
        for journal in journals:
            self._plan(f"tell {journal.name}", partial(self._tell, know, journal, journal is journals[0]))
        for ring in first:
            for rank in reversed(RANKS):
                self._plan(f"restart rank {rank} of {ring.site}", partial(self._restart, ring, rank))
            self._plan(f"await the status of {ring.site}", partial(self._is_well, ring))
        for ring in first:
            self._plan(f"drain {ring.site}", partial(self._is_drained, ring))
        for number in range(len(first), self.rings):
            self._plan(f"serve ring {number}", partial(self._serve, number))

    @property
    def is_over(self) -> bool:
        """Whether no step is left."""
        return not self._steps

    @property
    def next_step(self) -> str:
        """The next step in words."""
        return self._steps[0][0] if self._steps else "none"

    def advance(self) -> bool:
        """Try the next step; return False if it has to be tried again, or if none is left."""
        if self.is_over or not self._steps[0][1]():
            return False
        self._steps.popleft()
        return True

    def _plan(self, words: str, step: Callable[[], bool]) -> None:
        self._steps.append((words, step))

    def _found(self) -> bool:
        self._machines.add(self.rings)
        return True

    @staticmethod
    def _tell(know: Callable[[JournalOfRings, bool], None], journal: JournalOfRings, at_once: bool) -> bool:
        know(journal, at_once)
        return True

    def _restart(self, ring: WatchedRing, rank: int) -> bool:
        is_running = rank in ring.servers
        if is_running:
            ring.kill(rank)
        ring.share_keys(rank, self.rings)
        if is_running:
            ring.begin(rank)
        return True

    @staticmethod
    def _is_well(ring: WatchedRing) -> bool:
        return bool(ring.lrq("ring", "status")[0] == 0)

    @staticmethod
    def _is_drained(ring: WatchedRing) -> bool:
        return any(ring.lrq("drain", "--applied", "--timeout", "1", rank=rank)[0] == 0 for rank in _LEADING)

    def _serve(self, number: int) -> bool:
        self._machines.rings[number].begin(*RANKS)
        return True
