"""The time from the source's commit to the sink's, at a steady rate and for rare transactions."""

import random
import threading
from itertools import accumulate
from typing import Final, NamedTuple

from benchmarks.bench import Bench
from benchmarks.cluster import pause
from benchmarks.contender import Contender
from benchmarks.contenders.bare_relay import BareRelay, BareTickRelay
from benchmarks.contenders.lrq_staged import StagedLrq
from benchmarks.figures import percentile
from benchmarks.moments import VISIBLE, Moment, budget
from benchmarks.peers import main_contenders
from benchmarks.stream import Stream
from benchmarks.workload import Workload
from queues.clock import SYSTEM_CLOCK

NAME: Final = "latency"
SETTING: Final = "250 transactions/s"
_RATE: Final = 250
SELDOM: Final = "3 transactions/s"
#: The shortest and the longest pause between rare transactions, in seconds.
_PAUSES: Final = (0.2, 0.45)
_LOOK: Final = 0.0005


class Observer:
    """Polls the progress of one destination, and records each change with its time."""

    def __init__(self, contender: Contender) -> None:
        """Start to poll."""
        self._contender = contender
        self._over = threading.Event()
        self.seen: list[tuple[int, float]] = []
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        last = -1
        while not self._over.wait(_LOOK):
            progress = self._contender.progress(0)
            if progress != last:
                self.seen.append((progress, SYSTEM_CLOCK.monotonic()))
                last = progress

    def stop(self) -> None:
        """Stop to poll."""
        self._over.set()
        self._thread.join()

    def arrivals(self, numbers: list[int]) -> list[float]:
        """Return the arrival time of each entry; *numbers* are ascending."""
        seen = iter(self.seen)
        progress, moment = next(seen)
        found = []
        for number in numbers:
            while progress < number:
                progress, moment = next(seen)
            found.append(moment)
        return found


def measure(bench: Bench) -> None:
    """Write at a fixed rate without waiting for arrivals, then rarely; measure each transaction's delay."""
    for _, make in bench.rounds([*main_contenders(bench), BareRelay, BareTickRelay, StagedLrq]):
        contender = make()
        with bench.running(contender, 1, SETTING):
            stream = Stream(contender, Workload(1_000))
            stream.write(200)
            stream.wait()
            bench.place.cluster.settle()
            steadily = [number / _RATE for number in range(bench.pick(500, 2_500))]
            _note(bench, SETTING, contender, _sent(contender, stream, steadily))
            chance = random.Random(4)
            seldom = list(accumulate(chance.uniform(*_PAUSES) for _ in range(bench.pick(10, 30))))
            _note(bench, SELDOM, contender, _sent(contender, stream, seldom))


class _Sent(NamedTuple):
    """Transactions: the moments of their commits, the numbers of their last entries, and the observed progress."""

    commits: list[float]
    numbers: list[int]
    observer: Observer

    @property
    def delays(self) -> list[float]:
        """The seconds from each commit to the arrival."""
        arrivals = self.observer.arrivals(self.numbers)
        return [arrival - commit for arrival, commit in zip(arrivals, self.commits, strict=True)]


def _note(bench: Bench, setting: str, contender: Contender, sent: _Sent) -> None:
    if isinstance(contender, StagedLrq):
        # The probes and the subscriber cost time themselves, so the stages are numbers of their own.
        moments = [*contender.moments(), *(Moment(VISIBLE, *seen) for seen in sent.observer.seen)]
        found = budget(moments, sent.commits, sent.numbers)
        bench.book.add(NAME, setting, contender.name, **{f"{stage}, ms": each for stage, each in found.items()})
        return
    milliseconds = {f"p{p}_ms": percentile(sent.delays, p / 100) * 1_000 for p in (50, 99)}
    bench.book.add(NAME, setting, contender.name, **milliseconds)


def _sent(contender: Contender, stream: Stream, moments: list[float]) -> _Sent:
    """Write a transaction at each moment (in seconds from now), and wait for all of them."""
    observer = Observer(contender)
    commits: list[float] = []
    numbers: list[int] = []
    try:
        begin = SYSTEM_CLOCK.monotonic()
        for moment in moments:
            pause(begin + moment - SYSTEM_CLOCK.monotonic())
            stream.transaction()
            commits.append(SYSTEM_CLOCK.monotonic())
            numbers.append(stream.written)
        stream.wait()
        pause(0.05)
    finally:
        observer.stop()
    return _Sent(commits, numbers, observer)
