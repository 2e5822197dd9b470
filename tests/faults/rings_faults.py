"""The random faults of a run with several rings: one server, one machine, or the ways between machines."""

import random
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from queues.clock import SYSTEM_CLOCK
from tests.faults.rampage import PATIENCE, Verdict, wait_until
from tests.faults.rings_machines import MACHINES, Machines, WatchedRing
from tests.faults.standing_still import standing_still
from tests.system.ring_sites import PACE

#: A stop or a cut lasts for so many leases at most. During some of them others take over.
LONGEST_FAULT = 3.0
_KINDS = ("killed", "stopped", "ways cut", "machine cut off")
_DIRECTIONS = (("forward",), ("backward",), ("forward", "backward"))
_OPPOSITE = {"forward": "backward", "backward": "forward"}


class RingsFaults:
    """Disturbs the machines by *chance*, and counts the faults in *verdict*; the file *log* has their times.

    *between* is called while a fault lasts, for the steps that an operator takes meanwhile.
    """

    def __init__(
        self,
        machines: Machines,
        chance: random.Random,
        verdict: Verdict,
        *,
        log: Path,
        replace: bool,
        between: Callable[[], None],
    ) -> None:
        self._machines, self._chance, self._verdict = machines, chance, verdict
        self._log, self._between = log, between
        self._kinds = (*_KINDS, "disk replaced") if replace else _KINDS

    def next(self) -> None:
        """Bring about one random fault, and end it."""
        began = SYSTEM_CLOCK.monotonic()
        kind, victims = self._disturb()
        self._verdict.kills[kind] += 1
        with self._log.open("a") as file:
            print(f"{began:.1f} to {SYSTEM_CLOCK.monotonic():.1f}: {kind}", *victims, file=file)

    def _disturb(self) -> tuple[str, list[str]]:
        kind = self._chance.choice(self._kinds)
        lasting = self._chance.uniform(0, LONGEST_FAULT * PACE["lease_seconds"])
        if "cut" in kind:
            self._cut(kind, lasting)
            return kind, []
        victims = [*self._machines.servers(self._chance.choice(MACHINES))]
        place = "machine"
        if self._chance.randrange(2):
            victims, place = [self._chance.choice(victims)], "server"
        match kind:
            case "killed":
                self._kill(victims, lasting)
            case "stopped":
                self._stop(victims, lasting)
            case _:
                self._replace(victims)
        return f"{place} {kind}", [f"{ring.site}:{rank}" for ring, rank in victims]

    def _kill(self, victims: list[tuple[WatchedRing, int]], lasting: float) -> None:
        for ring, rank in victims:
            ring.kill(rank)
        self._last(lasting)
        for ring, rank in victims:
            ring.begin(rank)

    def _stop(self, victims: list[tuple[WatchedRing, int]], lasting: float) -> None:
        with ExitStack() as stack:
            for ring, rank in victims:
                process = ring.servers[rank].process
                stack.enter_context(standing_still(process.pid, f"sqlite:///{ring.database(rank)}"))
            # No step of an operator here: it might restart a process that stands still.
            SYSTEM_CLOCK.wait(threading.Event(), lasting)

    def _replace(self, victims: list[tuple[WatchedRing, int]]) -> None:
        """Replace disks once both other members of each ring count: two lost disks are too many."""
        for ring, rank in victims:
            if wait_until(ring.is_whole):
                ring.replace_disk(rank)
            else:
                self._verdict.problems.append(f"{ring.site} is not whole after {PATIENCE:g} s: {ring.tell()}")

    def _cut(self, kind: str, lasting: float) -> None:
        chance = self._chance
        machine, directions = chance.choice(MACHINES), chance.choice(_DIRECTIONS)
        for one in MACHINES:
            for other in MACHINES:
                if one == other:
                    continue
                if kind == "machine cut off":
                    # With one direction the machine only speaks, or only hears, on connections of both sides.
                    ways = [*self._machines.ways(one, other)] if machine in (one, other) else []
                    chosen = directions if machine == one else [_OPPOSITE[each] for each in directions]
                else:
                    ways = [way for way in self._machines.ways(one, other) if chance.randrange(3) == 0]
                    chosen = chance.choice(_DIRECTIONS)
                for way in ways:
                    way.cut(*chosen)
        self._last(lasting)
        self._machines.heal()

    def _last(self, lasting: float) -> None:
        SYSTEM_CLOCK.wait(threading.Event(), lasting / 2)
        self._between()
        SYSTEM_CLOCK.wait(threading.Event(), lasting / 2)
