"""The CPU time of one delivery by stage, for eight destinations, all to all, each with a subscriber.

`make bench ARGS="--profile deliveries"` prints the table. The processes count the time themselves; see `stages`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from benchmarks import cpu
from benchmarks.bench import Bench
from benchmarks.contenders.lrq_applied import LrqApplied
from benchmarks.figures import shown
from benchmarks.issue_bars import ALL
from benchmarks.stages import spent
from benchmarks.stream import Stream
from benchmarks.workload import Workload

PROFILES: Final = ("deliveries",)
ROLES: Final = ("source", "sink", "subscriber")
REST: Final = "writer and databases"
HEADS: Final = ("stage", "µs of CPU a delivery", "share of our own processes")
_DESTINATIONS: Final = 8
_WARM_UP: Final = 1_000

Reports = Mapping[str, Sequence[Mapping[str, float]]]


def measure(bench: Bench) -> list[tuple[str, ...]]:
    """Write at full speed; return the rows of the table."""
    workload = Workload(bench.pick(4_000, 20_000, 100_000), _DESTINATIONS, _DESTINATIONS)
    found: defaultdict[str, float] = defaultdict(float)
    for _ in range(bench.runs):
        lrq = LrqApplied()
        lrq.profiled = True
        with bench.running(lrq, _DESTINATIONS, f"profile, {ALL}"):
            stream = Stream(lrq, workload)
            stream.write(_WARM_UP)
            stream.wait()
            bench.place.cluster.settle()
            before, used_before = _reports(lrq), cpu.used()
            stream.write(workload.entries)
            stream.wait()
            after, used = _reports(lrq), cpu.used() - used_before
            for stage, seconds in by_stage(before, after, used).items():
                found[stage] += seconds
    return rows(found, workload.deliveries * bench.runs)


def _reports(lrq: LrqApplied) -> Reports:
    source, *sinks = lrq.cpu_by_stage()
    return {"source": [source], "sink": sinks, "subscriber": lrq.cpu_of_subscribers()}


def by_stage(before: Reports, after: Reports, used: float) -> dict[str, float]:
    """Return the CPU seconds of each stage of all processes together, and the rest of *used*."""
    found: defaultdict[str, float] = defaultdict(float)
    for role, reports in after.items():
        for earlier, later in zip(before[role], reports, strict=True):
            for stage, seconds in spent(earlier, later).items():
                found[stage if stage.startswith(ROLES) else f"{role}: {stage}"] += seconds
    found[REST] = max(used - sum(found.values()), 0.0)
    return dict(found)


def rows(seconds: Mapping[str, float], deliveries: int) -> list[tuple[str, ...]]:
    """Return a table row for each stage, by role and then from the dearest to the cheapest."""
    ours = sum(value for stage, value in seconds.items() if stage != REST)
    return list(_rows(seconds, deliveries, ours))


def _rows(seconds: Mapping[str, float], deliveries: int, ours: float) -> Iterator[tuple[str, ...]]:
    for role in ROLES:
        own = {stage: value for stage, value in seconds.items() if stage.startswith(f"{role}: ")}
        for stage, value in sorted(own.items(), key=lambda each: -each[1]):
            yield stage, shown(value / deliveries * 1e6), f"{value / ours:.1%}"
        yield f"{role}, together", shown(sum(own.values()) / deliveries * 1e6), f"{sum(own.values()) / ours:.1%}"
    yield REST, shown(seconds.get(REST, 0.0) / deliveries * 1e6), ""
