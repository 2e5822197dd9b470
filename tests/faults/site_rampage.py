"""Kill and stop the servers of several sites at random moments, then judge entries, leaders and generations."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

import queues
from queues.clock import SYSTEM_CLOCK
from tests.faults import ledger, site_ledger
from tests.faults.plan import LEASE_SECONDS
from tests.faults.processes import Process
from tests.faults.rampage import EARLY, LONGEST, PATIENCE, Verdict, wait_until
from tests.faults.site_plan import SINKS, SOURCE, SitePlan, set_up
from tests.faults.standing_still import standing_still

#: A stop lasts for this many leases at most, so that the others take over during some stops.
LONGEST_STOP = 1.5


def site_rampage(plan: SitePlan, moments: int) -> Verdict:
    """Kill or stop a random process *moments* times; return whether every entry arrived once, under one leader."""
    began = SYSTEM_CLOCK.monotonic()
    set_up(plan)
    source = queues.create_engine(plan.urls[SOURCE])
    sinks = {name: queues.create_engine(plan.urls[name]) for name in SINKS}
    verdict = Verdict(plan.seed, source.dialect.name)
    writer = Process("writer", "writer", plan.folder, module="tests.faults.site_roles")
    processes = [
        writer,
        *(Process("server", name, plan.folder, module="tests.faults.site_roles") for name in plan.server_names),
    ]
    try:
        for process in processes:
            process.start()
        _disturb(plan, processes, random.Random(plan.seed), moments, verdict)
        plan.no_more_writing.touch()
        wait_until(lambda: writer.stands(ledger.WRITTEN_ALL))
        if not wait_until(lambda: _is_complete(source, sinks)):
            verdict.problems.append(f"entries are missing after {PATIENCE:g} s")
        # The last victim may still be starting.
        wait_until(lambda: all(process.is_up for process in processes))
        for process in processes:
            if code := process.stop():
                verdict.problems.append(f"{process.name} ended with exit code {code}: see {process.log}")
        ranges = plan.settings(f"{SOURCE}-0").ranges
        verdict.problems += site_ledger.problems(source, sinks, plan.client_names, ranges)
        verdict.facts = _facts(source, sinks)
    finally:
        for process in processes:
            process.abandon()
        for engine in (source, *sinks.values()):
            engine.dispose()
    verdict.seconds = SYSTEM_CLOCK.monotonic() - began
    return verdict


def _disturb(plan: SitePlan, processes: list[Process], chance: random.Random, moments: int, verdict: Verdict) -> None:
    for _ in range(moments):
        victim = chance.choice(processes)
        if chance.randrange(EARLY):
            wait_until(lambda: all(process.is_up for process in processes))
        SYSTEM_CLOCK.wait(threading.Event(), chance.uniform(0, LONGEST))
        if chance.randrange(2):
            victim.kill()
            verdict.kills[f"{victim.name} killed"] += 1
            victim.start()
        else:
            with _stopped(victim, plan.url_of(victim.name)):
                SYSTEM_CLOCK.wait(threading.Event(), chance.uniform(0, LONGEST_STOP * LEASE_SECONDS))
            verdict.kills[f"{victim.name} stopped"] += 1


@contextmanager
def _stopped(victim: Process, url: str) -> Iterator[None]:
    with standing_still(victim.pid, url):
        yield


def _is_complete(source: Engine, sinks: dict[str, Engine]) -> bool:
    sent = site_ledger.committed(source, sinks)
    owed = {name: sum(found.total() for (_, sink), found in sent.items() if sink == name) for name in sinks}
    return owed == {name: site_ledger.received(sink) for name, sink in sinks.items()}


def _facts(source: Engine, sinks: dict[str, Engine]) -> dict[str, int]:
    moves = [each for sink in sinks.values() for each in site_ledger.arrived(sink).moves.values()]
    led = site_ledger.leaders(source)
    return {
        "committed": sum(found.total() for found in site_ledger.committed(source, sinks).values()),
        "delivered": sum(map(site_ledger.received, sinks.values())),
        "sessions": len(moves),
        "leaders of ranges": len(led),
        "servers that led": len({each.server for each in led}),
        "ms of the longest standstill of a session": round(1000 * site_ledger.longest_standstill(moves)),
    }
