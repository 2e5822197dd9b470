"""Rounds in which both sides take turns, and their results."""

import os
from dataclasses import dataclass, field
from statistics import median

from benchmarks.snapshot.applying import ByColumns, ByEntries, apply_seconds
from benchmarks.snapshot.cpu import since
from benchmarks.snapshot.stages import durations
from benchmarks.snapshot.travel import PLAIN, SPARK, Travel
from benchmarks.snapshot.writing import Writing

#: Larger snapshots have higher bars: the start of a job matters less.
_MANY = 1_000_000


@dataclass
class Compared:
    """The seconds of lrq (*ours*) and of the other side (*theirs*) in each round, for *rows* rows."""

    what: str
    against: str
    bar: float
    rows: int
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    ready: list[float] = field(default_factory=list)
    stages: list[dict[str, float]] = field(default_factory=list)
    cpu: list[dict[str, float]] = field(default_factory=list)
    cpu_against: list[dict[str, float]] = field(default_factory=list)
    resident: dict[str, int] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)

    @property
    def our_rate(self) -> float:
        """Rows per second of lrq, in the median round."""
        return self.rows / median(self.ours)

    @property
    def their_rate(self) -> float:
        """Rows per second of the other side, in the median round."""
        return self.rows / median(self.theirs)

    @property
    def ratio(self) -> float:
        """The median of the ratios of each round: a slow phase of the machine slows both sides of a round."""
        return median(theirs / ours for ours, theirs in zip(self.ours, self.theirs, strict=True))

    def facts(self) -> dict[str, object]:
        """Return the comparison as data for JSON."""
        return {
            "what": self.what,
            "against": self.against,
            "rows": self.rows,
            "seconds": self.ours,
            "seconds_against": self.theirs,
            "seconds_until_ready": self.ready,
            "seconds_of_stages": self.stages,
            "cpu_seconds": self.cpu,
            "cpu_seconds_against": self.cpu_against,
            "rows_per_second": round(self.our_rate),
            "rows_per_second_against": round(self.their_rate),
            "ratio": round(self.ratio, 3),
            "bar": self.bar,
            "resident_bytes_before": self.resident,
            "peak_bytes": self.peaks,
        }


def compare_write(writing: Writing, rows: int, size: int, rounds: int) -> Compared:
    """Measure the warm write by Spark against a bare COPY."""
    found = Compared("warm snapshot write", "bare COPY", 0.9 if rows >= _MANY else 0.75, rows)
    for _ in range(rounds):
        found.ours.append(writing.by_spark(rows, size))
        found.theirs.append(writing.by_copy())
    return found


def compare_travel(travel: Travel, rows: int, size: int, rounds: int, *, plain: bool = False) -> list[Compared]:
    """Measure the time until a snapshot is applied against `pg_dump | psql`, by turns.

    With *plain*, a provider in plain Python takes its turns too.
    """
    bar = 0.9 if rows >= _MANY else 0.5
    clients = {SPARK: Compared('request to "applied"', "pg_dump | psql", bar, rows)}
    if plain:
        clients[PLAIN] = Compared("the same without Spark", "pg_dump | psql", bar, rows)
    travel.fill(rows, size)
    travel.forget()
    clients[SPARK].resident = travel.peaks()
    for number in range(rounds):
        dumped = [] if number % 2 == 0 else [_dumped(travel)]
        for client, found in clients.items():
            before = travel.cpu()
            times = travel.by_lrq(client)
            found.cpu.append(since(before, travel.cpu()))
            found.ours.append(times["applied"])
            found.ready.append(times["ready"])
            found.stages.append(durations(times))
        (seconds, spent), *_ = dumped or [_dumped(travel)]
        for found in clients.values():
            found.theirs.append(seconds)
            found.cpu_against.append(spent)
    clients[SPARK].peaks = travel.peaks()
    return list(clients.values())


def _dumped(travel: Travel) -> tuple[float, dict[str, float]]:
    before, ours = travel.cpu(), os.times()
    seconds = travel.by_dump()
    now, spent = os.times(), since(before, travel.cpu())
    programs = now.children_user + now.children_system - ours.children_user - ours.children_system
    return seconds, {"PostgreSQL": spent.get("PostgreSQL", 0.0), "pg_dump, psql": programs}


def compare_apply(travel: Travel, rows: int, size: int, rounds: int) -> Compared:
    """Measure the listener's bulk form against its entry form, by turns, each with a snapshot of its own."""
    found = Compared("applied as columns", "applied as entries", 1.0, rows)
    travel.fill(rows, size)
    for _ in range(rounds):
        for seconds, listener in ((found.ours, ByColumns(PLAIN)), (found.theirs, ByEntries(PLAIN))):
            travel.by_lrq(PLAIN)
            seconds.append(apply_seconds(travel.sink, listener))
    return found
