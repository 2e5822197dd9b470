"""Disturb the servers of several rings at random moments, also while the rings grow, then judge each sink."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Engine

from queues.clock import SYSTEM_CLOCK
from tests.faults import site_ledger
from tests.faults.rampage import PATIENCE, Verdict, wait_until
from tests.faults.rings_faults import RingsFaults
from tests.faults.rings_growth import Growth
from tests.faults.rings_journals import KEYS, JournalOfRings
from tests.faults.rings_ledger import marks_of, problems_of_generations, problems_of_keys, problems_of_marks
from tests.faults.rings_machines import Machines, WatchedRing
from tests.system.ring_sites import RANKS
from tests.system.world import World

SINKS = ("tokyo", "rome")
#: Of each ring, `north` knows all servers, and `south` only the one that never leads.
PRODUCERS = ("north", "south")
#: Each producer has so many more entries of each ring after the last moment, however slow the machine is.
FEWEST = 10
#: The longest time without a disturbance, in seconds.
_LONGEST = 1.0
#: A growth tries so many steps at most between two disturbances.
_STEPS = 4


class RingsPlan(NamedTuple):
    """The number of rings at the beginning, and the events besides kills, stops and cuts."""

    rings: int = 3
    #: Whether the rings become twice as many in the middle of the run.
    resize: bool = False
    #: Whether disks are replaced by empty ones.
    replace: bool = True


def rings_rampage(
    new_site: Callable[[str], Engine], folder: Path, *, seed: int, moments: int, plan: RingsPlan
) -> Verdict:
    """Disturb servers or machines *moments* times; return whether each sink heard each acknowledged entry once.

    The entries of each key must come in order, also from two rings.
    """
    began, chance = SYSTEM_CLOCK.monotonic(), random.Random(seed)
    verdict = Verdict(seed, "sqlite")
    with ExitStack() as stack:
        run = _Run(World(new_site, stack), stack, folder, seed, plan)
        faults = RingsFaults(
            run.machines, chance, verdict, log=folder / "disturbances.log", replace=plan.replace, between=run.grow
        )
        for number in range(moments):
            SYSTEM_CLOCK.wait(threading.Event(), chance.uniform(0, _LONGEST))
            if plan.resize and number == moments // 3:
                run.begin_growth()
            run.grow(chance.randint(1, _STEPS))
            faults.next()
        run.end(verdict)
        run.judge(verdict)
    verdict.seconds = SYSTEM_CLOCK.monotonic() - began
    return verdict


class _Run:
    """The machines, producers and sinks of one run."""

    def __init__(self, world: World, stack: ExitStack, folder: Path, seed: int, plan: RingsPlan) -> None:
        sinks = {name: world.server(name, listen=[f"ipc://{folder / name}"]).endpoints[0] for name in SINKS}
        self.engines = {name: world.site(name) for name in SINKS}
        for engine in self.engines.values():
            site_ledger.watch_marks(engine)
        self.machines = Machines(world, stack, folder, sinks)
        for _ in range(plan.rings):
            self.machines.add(plan.rings).begin(*RANKS)
        self.heard = {name: world.subscribe(name) for name in SINKS}
        self.growth: Growth | None = None
        self._order = random.Random(seed)
        self.journals = [JournalOfRings(name, self._named(name), SINKS, seed) for name in PRODUCERS]

    def begin_growth(self) -> None:
        self.growth = Growth(self.machines, self.journals, self._know)

    def grow(self, steps: int = 1) -> None:
        """Try up to so many steps of the growth, if it has begun."""
        for _ in range(steps):
            if self.growth is None or not self.growth.advance():
                return

    def end(self, verdict: Verdict) -> None:
        """End the growth, let all producers go on at all rings, and stop them."""
        growth = self.growth
        while growth and not growth.is_over:
            if not wait_until(growth.advance):
                verdict.problems.append(f"after {PATIENCE:g} s the growth still has to {growth.next_step}")
                break
        for ring in self._served():
            if not wait_until(ring.is_whole):
                verdict.problems.append(f"{ring.site} is not whole after {PATIENCE:g} s: {ring.tell()}")
        reached = self._counts()
        lanes = [(each.name, ring.site) for each in self.journals for ring in self._served()]
        wait_until(lambda: any(each.problems for each in self.journals) or self._has_grown(reached, lanes))
        now = self._counts()
        if stuck := [lane for lane in lanes if now[lane] < reached[lane] + FEWEST]:
            verdict.problems.append(f"producers do not go on after {PATIENCE:g} s: {stuck}")
        for each in self.journals:
            if not each.stop(PATIENCE):
                verdict.problems.append(f"{each.name} has no answer after {PATIENCE:g} s")
            verdict.problems += each.problems

    def judge(self, verdict: Verdict) -> None:
        """Compare each sink with the journals, with the other sink and with the files of the members."""
        owed = Counter[str]()
        for each in self.journals:
            owed.update(each.numbers)
        acked = self._acked()
        total = sum(map(len, acked.values()))
        wait_until(lambda: all(sum(len(own) for _, own in heard.calls) >= total for heard in self.heard.values()))
        for name, heard in self.heard.items():
            applied = [(ring, payload) for ring, payloads in [*heard.calls] for payload in payloads]
            verdict.problems += problems_of_keys(name, applied, owed)
            for site in heard.heard:
                sent = Counter(acked.get(site, []))
                verdict.problems += site_ledger.problems_of_entries(f"{site} at {name}", sent, heard.log(site))
                if any(not kind.startswith("log") for kind in heard.kinds(site)):
                    verdict.problems.append(f"{name} heard more than the log of {site}: {heard.kinds(site)}")
            for site, marks in marks_of(self.engines[name]).items():
                verdict.problems += problems_of_marks(f"{site} at {name}", marks)
            if heard.errors:
                verdict.problems.append(f"the listener of {name} has failed: {heard.errors[:3]}")
        for ring in self._served():
            log, other = (heard.log(ring.site) for heard in self.heard.values())
            if log != other:
                verdict.problems.append(f"the sinks have heard {ring.site} in two orders")
            if not wait_until(lambda ring=ring, log=log: all(ring.keeps_end_of(log, rank) for rank in RANKS)):
                verdict.problems.append(f"the files of {ring.site} differ from the sinks after {PATIENCE:g} s")
            verdict.problems += problems_of_generations(ring.site, ring.disks())
        verdict.facts = self._facts(total)

    def _served(self) -> list[WatchedRing]:
        return [ring for ring in self.machines.rings if ring.servers]

    def _named(self, producer: str) -> dict[str, str]:
        """Return the rings with the endpoints that a producer knows."""
        named = {}
        for ring in self.machines.rings:
            known = ring.members[-1:] if producer == "south" else self._order.sample(ring.members, len(ring.members))
            named[ring.site] = ",".join(known)
        return named

    def _know(self, journal: JournalOfRings, at_once: bool) -> None:
        journal.know(self._named(journal.name), at_once=at_once)

    def _acked(self) -> dict[str, list[bytes]]:
        sites = [ring.site for ring in self.machines.rings]
        return {site: [payload for each in self.journals for payload in each.acked.get(site, [])] for site in sites}

    def _counts(self) -> Counter[tuple[str, str]]:
        return Counter({(each.name, site): len(own) for each in self.journals for site, own in [*each.acked.items()]})

    def _has_grown(self, reached: Counter[tuple[str, str]], lanes: list[tuple[str, str]]) -> bool:
        now = self._counts()
        return all(now[lane] >= reached[lane] + FEWEST for lane in lanes)

    def _facts(self, total: int) -> dict[str, int]:
        disks = [(ring.site, disk) for ring in self.machines.rings for disk in ring.disks()]
        led = {(site, generation) for site, disk in disks for generation, _ in disk.branches}
        return {
            "entries": total,
            "rings": len(self.machines.rings),
            "keys": len(KEYS),
            "generations": len(led),
            "disks": len(disks),
            "refusals of keys that moved": sum(each.refusals for each in self.journals),
            "trimmed at the end": sum(ring.trimmed(rank) for ring in self.machines.rings for rank in RANKS),
        } | {f"ms of the longest standstill of {each.name}": round(1000 * each.longest[0]) for each in self.journals}
