"""Kill, stop and cut off the servers of a ring at random moments, then judge the entries at a sink."""

import random
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import Engine

from queues.clock import SYSTEM_CLOCK
from tests.faults.cut_relay import CutRelay
from tests.faults.rampage import PATIENCE, Verdict, wait_until
from tests.faults.ring_disks import RingDisks
from tests.faults.ring_producers import JournalOfProducer
from tests.faults.ring_snapshot import RingSnapshot
from tests.faults.standing_still import standing_still
from tests.system.ring_sites import PACE, RANKS, RingSite
from tests.system.world import World

PRODUCERS = ("north", "south")
#: `rome` gets a snapshot in the middle of the run.
SINKS = ("tokyo", "rome")
#: Each producer has so many acknowledged entries at least, however slow the machine is.
FEWEST = 20
#: The longest time without a disturbance, in seconds.
_LONGEST = 1.0
#: A stop or a cut lasts for so many leases at most. During some of them others take over.
_LONGEST_FAULT = 3.0


def ring_rampage(
    new_site: Callable[[str], Engine], folder: Path, *, seed: int, moments: int, acknowledging: int = 1
) -> Verdict:
    """Disturb a random server *moments* times; return whether the sink heard each acknowledged entry once, in order.

    With two *acknowledging* followers, each answer is also compared with all three disks.
    """
    began, chance = SYSTEM_CLOCK.monotonic(), random.Random(seed)
    verdict = Verdict(seed, "sqlite")
    with ExitStack() as stack:
        run = _Run(World(new_site, stack), stack, folder, acknowledging)
        producers = [JournalOfProducer(run.site.members, name, SINKS, run.on_acked) for name in PRODUCERS]
        for number in range(moments):
            SYSTEM_CLOCK.wait(threading.Event(), chance.uniform(0, _LONGEST))
            if number == moments // 2:
                run.begin_snapshot(producers)
            run.disturb(chance, verdict)
        wait_until(lambda: all(len(producer.acked) >= FEWEST for producer in producers))
        silent = [producer.name for producer in producers if not producer.stop(PATIENCE)]
        if silent:
            # The members tell why, and their logs are kept.
            verdict.problems.append(f"no answer after {PATIENCE:g} s for {silent}: {run.site.look(0)}")
        else:
            run.judge(producers, verdict)
    verdict.seconds = SYSTEM_CLOCK.monotonic() - began
    return verdict


class _Run:
    """The servers of one run, with a relay for each way from one to another."""

    def __init__(self, world: World, stack: ExitStack, folder: Path, acknowledging: int) -> None:
        self.site = RingSite(world, stack, folder, SINKS)
        self.site.more = "segment_bytes = 2000\ntrim_seconds = 0.2\n"
        self.site.more_of_ring = f"trim = true\nacknowledging_followers = {acknowledging}\n"
        self.disks = RingDisks([self.site.database(rank) for rank in RANKS])
        self.on_acked = self.disks.judge if acknowledging > 1 else _leave
        self.heard, self.late = world.subscribe("tokyo"), world.subscribe("rome")
        self.snapshot: RingSnapshot | None = None
        self._stack = stack
        self.relays: dict[tuple[int, int], CutRelay] = {}
        for rank in RANKS:
            ways = list(self.site.members)
            for other in RANKS:
                if other != rank:
                    relay = CutRelay(folder / f"r{rank}{other}", folder / f"m{other}")
                    stack.callback(relay.close)
                    self.relays[rank, other], ways[other] = relay, relay.endpoint
            self.site.write(rank, ways)
        self.site.found()
        self.site.begin(*RANKS)

    def begin_snapshot(self, producers: list[JournalOfProducer]) -> None:
        def state() -> list[bytes]:
            return [payload for producer in producers for payload in producer.noted]

        # A sink without entries gets a snapshot first, once there is a provider.
        wait_until(lambda: self.heard.log("paris"))
        self.snapshot = RingSnapshot(self.site, self._stack, state, self.late)
        self.snapshot.order()

    def disturb(self, chance: random.Random, verdict: Verdict) -> None:
        lasting = chance.uniform(0, _LONGEST_FAULT * PACE["lease_seconds"])
        victim = chance.choice(RANKS)
        kind = chance.choice(["killed", "stopped", "cut"])
        if kind == "killed":
            self.site.kill(victim)
            SYSTEM_CLOCK.wait(threading.Event(), lasting)
            self.site.begin(victim)
        elif kind == "stopped":
            with standing_still(self.site.servers[victim].process.pid, f"sqlite:///{self.site.database(victim)}"):
                SYSTEM_CLOCK.wait(threading.Event(), lasting)
        else:
            chosen = chance.sample(sorted(self.relays), chance.randrange(1, len(self.relays)))
            for way in chosen:
                self.relays[way].cut(*chance.choice([("forward",), ("backward",), ("forward", "backward")]))
            SYSTEM_CLOCK.wait(threading.Event(), lasting)
            for relay in self.relays.values():
                relay.heal()
        verdict.kills[f"rank {victim} {kind}" if kind != "cut" else "ways cut"] += 1

    def judge(self, producers: list[JournalOfProducer], verdict: Verdict) -> None:
        owed = {producer.name: producer.acked for producer in producers}
        wait_until(lambda: sum(map(len, owed.values())) <= len(self.heard.log("paris")))
        log = self.heard.log("paris")
        for name, payloads in owed.items():
            found = [payload for payload in log if payload.startswith(f"{name}:".encode())]
            if found != payloads:
                verdict.problems.append(
                    f"{name} has {len(payloads)} acknowledged entries, and the sink heard {len(found)}"
                    f"{' in another order' if sorted(found) == sorted(payloads) else ''}"
                )
        if not wait_until(lambda: all(_ends_with(log, self.site.log(rank)) for rank in RANKS)):
            verdict.problems.append(f"the members' files differ from the sink after {PATIENCE:g} s")
        if self.snapshot:
            verdict.problems += self.snapshot.problems(log)
        if any(not kind.startswith("log") for kind in self.heard.kinds("paris")):
            verdict.problems.append(f"the sink heard more than the log: {self.heard.kinds('paris')}")
        verdict.problems += self.disks.problems[:3]
        if self.heard.errors:
            verdict.problems.append(f"the listener has failed: {self.heard.errors[:3]}")
        generation = max(each["status"]["generation"] for each in self.site.look(0)["members"] if each["status"])
        verdict.facts = {
            "entries": len(log),
            "answers compared with three disks": self.disks.judged,
            "generations": generation,
            "after the snapshot": self.snapshot.later if self.snapshot and not verdict.problems else 0,
            "trimmed at the end": min(map(self.site.trimmed, RANKS)),
            "ms of the longest standstill of a producer": round(1000 * max(each.longest for each in producers)),
        }


def _leave(_payload: bytes) -> None:
    """Judge nothing: an answered entry may be on two disks."""


def _ends_with(log: list[bytes], kept: list[bytes]) -> bool:
    """Return whether a file has the newest entries of *log*; older ones may be trimmed there."""
    return bool(kept) and log[-len(kept) :] == kept
