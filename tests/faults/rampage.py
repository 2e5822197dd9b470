"""Kill processes at random moments, then check that every entry arrived exactly once."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import queues
from lr_client import RoutingQueueSenderClient
from queues.clock import SYSTEM_CLOCK
from tests.faults import ledger
from tests.faults.plan import SINK, Plan, set_up
from tests.faults.processes import Process
from tests.faults.transfers import needless, sent_chunks

#: The longest time until every entry has arrived after the last kill, in seconds.
PATIENCE = 180.0
#: The longest time without a kill while all processes work, in seconds.
LONGEST = 0.4
#: More entries than these arrive by the log, before the application stops writing.
LEAST_DELIVERED = 100
#: One in `EARLY` kills comes before all processes work again.
EARLY = 4
#: One in `SNAPSHOT_EVERY` kills comes with a request for a new snapshot.
SNAPSHOT_EVERY = 6


@dataclass
class Verdict:
    """The result of a run: its kills, its faults and its counts."""

    seed: int
    dialect: str
    kills: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    facts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        """Summarise the result in one line."""
        killed = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        what = ", ".join(f"{count} {name}" for name, count in self.facts.items())
        outcome = "ok" if self.ok else "FAILED: " + "; ".join(self.problems)
        return (
            f"seed {self.seed}, {self.dialect}: killed {self.kills.total()} times ({killed}); {what}; "
            f"{self.seconds:.1f} s; {outcome}"
        )


def rampage(folder: Path, source_url: str, sink_url: str, *, seed: int, moments: int) -> Verdict:
    """Kill and restart a random process *moments* times; return whether every entry arrived exactly once."""
    began = SYSTEM_CLOCK.monotonic()
    chance = random.Random(seed)
    plan = Plan(str(folder), source_url, sink_url, seed)
    set_up(plan)
    source, sink = queues.create_engine(source_url), queues.create_engine(sink_url)
    verdict = Verdict(seed, source.dialect.name)
    processes = [
        Process("application", "application", plan.folder),
        Process("server", "source-server", plan.folder),
        Process("server", "sink-server", plan.folder),
        Process("subscriber", "subscriber", plan.folder),
    ]
    try:
        for process in processes:
            process.start()
        with watching_staged_rows(sink) as went_back:
            for _ in range(moments):
                victim = chance.choice(processes)
                if chance.randrange(EARLY):
                    wait_until(lambda: all(process.is_up for process in processes))
                SYSTEM_CLOCK.wait(threading.Event(), chance.uniform(0, LONGEST))
                if chance.randrange(SNAPSHOT_EVERY) == 0:
                    _ask_for_snapshot(source)
                victim.kill()
                verdict.kills[victim.name] += 1
                victim.start()
            # Slow snapshots may have brought everything so far.
            wait_until(lambda: ledger.facts(source, sink)["delivered"] > LEAST_DELIVERED)
            plan.no_more_writing.touch()
            wait_until(lambda: processes[0].stands(ledger.WRITTEN_ALL))
            if not wait_until(lambda: _is_idle(source) and ledger.everything_arrived(source, sink)):
                verdict.problems.append(f"entries are missing after {PATIENCE:g} s")
        # The rows of another attempt replace those that have arrived.
        repeated = _built_again(source)
        verdict.problems += [each for each in went_back if not any(sync_id in each for sync_id in repeated)]
        # The last victim may still be starting.
        wait_until(lambda: all(process.is_up for process in processes))
        for process in processes:
            if code := process.stop():
                verdict.problems.append(f"{process.name} ended with exit code {code}: see {process.log}")
        verdict.problems += ledger.problems(source, sink)
        for sync_id, chunks in sent_chunks(processes[1].log).items():
            if sync_id not in repeated and (where := needless(chunks, plan.window_frames)):
                verdict.problems.append(f"snapshot {sync_id} was {where}")
        verdict.facts = ledger.facts(source, sink)
    finally:
        for process in processes:
            process.abandon()
        source.dispose()
        sink.dispose()
    verdict.seconds = SYSTEM_CLOCK.monotonic() - began
    return verdict


def _built_again(source: Engine) -> set[str]:
    with source.connect() as connection:
        return set(connection.execute(text("SELECT sync_id FROM lrq_snapshots WHERE attempt > 1")).scalars())


def _ask_for_snapshot(source: Engine) -> None:
    with Session(source) as session, session.begin():
        RoutingQueueSenderClient(ledger.CLIENT).request_snapshot_sync(session, SINK)


def wait_until(fact: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Wait at most so many *seconds* for *fact*; return whether it became true."""
    deadline = SYSTEM_CLOCK.monotonic() + seconds
    never = threading.Event()
    while not (true := fact()) and SYSTEM_CLOCK.monotonic() < deadline:
        SYSTEM_CLOCK.wait(never, 0.05)
    return true


def _is_idle(source: Engine) -> bool:
    unfinished = text("SELECT count(*) FROM lrq_snapshots WHERE state IN ('requested', 'building', 'ready')")
    with source.connect() as connection:
        return not connection.execute(unfinished).scalar_one()


@contextmanager
def watching_staged_rows(sink: Engine) -> Iterator[list[str]]:
    """Watch the number of staged rows at the sink; the list names each decrease."""
    went_back: list[str] = []
    over = threading.Event()
    marks = text("SELECT staging_sync_id, staging_rows FROM lrq_receive_marks")

    def watch() -> None:
        staged: dict[str, int] = {}
        while not over.wait(0.01):
            with sink.connect() as connection:
                found = connection.execute(marks).all()
            for sync_id, rows in found:
                if sync_id and rows < staged.get(sync_id, 0):
                    went_back.append(f"snapshot {sync_id} went back from {staged[sync_id]} to {rows} rows")
                staged[sync_id] = rows

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield went_back
    finally:
        over.set()
        thread.join()
