"""Kill and stop the processes of several sites at random moments, then judge entries, leaders and generations."""

import random
import statistics
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Engine

import queues
from queues.clock import SYSTEM_CLOCK, now_us
from tests.faults import ledger, site_ledger
from tests.faults.processes import Process
from tests.faults.rampage import EARLY, LONGEST, PATIENCE, Verdict, wait_until
from tests.faults.site_plan import SINKS, SOURCE, SitePlan, set_up
from tests.faults.site_producers import Journal, journal_of, produced
from tests.faults.standing_still import standing_still
from tests.faults.takeovers import Disturbance, takeovers

#: A stop lasts for this many leases at most, so that the others take over during some stops.
LONGEST_STOP = 1.5

Sent = dict[tuple[str, str], Counter[bytes]]


def site_rampage(plan: SitePlan, moments: int) -> Verdict:
    """Kill or stop a random process *moments* times; return whether every entry arrived once, under one leader."""
    began = SYSTEM_CLOCK.monotonic()
    set_up(plan)
    source = queues.create_engine(plan.urls[SOURCE])
    sinks = {name: queues.create_engine(plan.urls[name]) for name in SINKS}
    verdict = Verdict(plan.seed, source.dialect.name)
    run = _Run(plan)
    try:
        for process in run.processes:
            process.start()
        run.disturb(random.Random(plan.seed), moments, verdict)
        plan.no_more_writing.touch()
        for process in run.applications:
            if not wait_until(lambda process=process: process.stands(ledger.WRITTEN_ALL)):
                verdict.problems.append(f"{process.name} has not written all after {PATIENCE:g} s: see {process.log}")
        if not wait_until(lambda: _is_complete(plan, source, sinks)):
            verdict.problems.append(f"entries are missing after {PATIENCE:g} s")
        # The last victim may still be starting.
        wait_until(lambda: all(process.is_up for process in run.processes))
        over = now_us() / 1e6
        for process in run.processes:
            if code := process.stop():
                verdict.problems.append(f"{process.name} ended with exit code {code}: see {process.log}")
        ranges = plan.settings(f"{SOURCE}-0").ranges
        verdict.problems += site_ledger.problems(source, sinks, sent(plan, source), ranges)
        replaced = takeovers(run.disturbances, site_ledger.leaders(source, released=True), plan.lease_seconds, over)
        if max(replaced, default=0) > plan.lease_seconds:
            verdict.problems.append(f"a range was without a leader for {max(replaced):.3f} s, longer than a lease")
        verdict.facts = _facts(plan, source, sinks) | _times(plan, replaced)
    finally:
        run.close()
        for engine in (source, *sinks.values()):
            engine.dispose()
    verdict.seconds = SYSTEM_CLOCK.monotonic() - began
    return verdict


class _Run:
    """The processes of a run, and the disturbances of the source's servers."""

    def __init__(self, plan: SitePlan) -> None:
        def made(role: str, *names: str) -> list[Process]:
            return [Process(role, name, plan.folder, module="tests.faults.site_roles") for name in names]

        self._plan = plan
        self._log = Path(plan.folder) / "disturbances.log"
        self.applications = [*made("writer", "writer"), *made("producer", *plan.producer_names)]
        self.processes = [*self.applications, *made("server", *plan.server_names)]
        self.disturbances: list[Disturbance] = []

    def close(self) -> None:
        """End the processes that still run."""
        for process in self.processes:
            process.abandon()

    def disturb(self, chance: random.Random, moments: int, verdict: Verdict) -> None:
        """Kill or stop a random process *moments* times."""
        for _ in range(moments):
            victim = chance.choice(self.processes)
            if chance.randrange(EARLY):
                wait_until(lambda: all(process.is_up for process in self.processes))
            SYSTEM_CLOCK.wait(threading.Event(), chance.uniform(0, LONGEST))
            others = self._others(victim)
            if chance.randrange(2):
                pid, began = victim.pid, now_us() / 1e6
                victim.kill()
                self._note(victim, Disturbance(pid, began, float("inf"), others))
                verdict.kills[f"{victim.name} killed"] += 1
                victim.start()
            else:
                with standing_still(victim.pid, self._plan.url_of(victim.name)):
                    began = now_us() / 1e6
                    SYSTEM_CLOCK.wait(threading.Event(), chance.uniform(0, LONGEST_STOP * self._plan.lease_seconds))
                    self._note(victim, Disturbance(victim.pid, began, now_us() / 1e6, others))
                verdict.kills[f"{victim.name} stopped"] += 1

    def _others(self, victim: Process) -> frozenset[int]:
        servers = [process for process in self.processes if process.name in self._plan.source_names]
        return frozenset(process.pid for process in servers if process is not victim and process.is_up)

    def _note(self, victim: Process, disturbance: Disturbance) -> None:
        with self._log.open("a") as file:
            print(victim.name, disturbance, file=file)
        if victim.name in self._plan.source_names:
            self.disturbances.append(disturbance)


def sent(plan: SitePlan, source: Engine) -> Sent:
    """Return the payloads that each session (client, sink) owes: committed by writers, and in journals of producers."""
    found: Sent = {(client, sink): Counter() for client in plan.client_names for sink in SINKS}
    found |= site_ledger.committed(source, SINKS)
    for (client, sink, payload), count in produced(plan).items():
        found[client, sink][payload] += count
    return found


def _is_complete(plan: SitePlan, source: Engine, sinks: dict[str, Engine]) -> bool:
    owed = Counter[str]()
    for (_, sink), payloads in sent(plan, source).items():
        owed[sink] += payloads.total()
    return owed == {name: site_ledger.received(sink) for name, sink in sinks.items()}


def _facts(plan: SitePlan, source: Engine, sinks: dict[str, Engine]) -> dict[str, int]:
    moves = [each for sink in sinks.values() for each in site_ledger.arrived(sink).moves.values()]
    led = site_ledger.leaders(source)
    return {
        "committed": sum(payloads.total() for payloads in site_ledger.committed(source, sinks).values()),
        "produced": produced(plan).total(),
        "requests": sum(len(Journal(journal_of(plan, name)).requests) for name in plan.producer_names),
        "delivered": sum(map(site_ledger.received, sinks.values())),
        "sessions": len(moves),
        "leaders of ranges": len(led),
        "servers that led": len({each.server for each in led}),
        "ms of the longest standstill of a session": round(1000 * site_ledger.longest_standstill(moves)),
    }


def _times(plan: SitePlan, replaced: Sequence[float]) -> dict[str, int]:
    lasting = [1000 * each for each in replaced if each != float("inf")] or [0.0]
    return {
        "takeovers of ranges": len(replaced),
        "ms of the longest takeover": round(max(lasting)),
        "ms of the median takeover": round(statistics.median(lasting)),
        "ms of the lease": round(1000 * plan.lease_seconds),
    }
