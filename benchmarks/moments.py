"""The moments that an entry passes on its way, recorded by wrapping methods of lrq in the benchmark's own processes.

lrq itself has no code for this, so a server that is not measured pays nothing.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from benchmarks.figures import percentile
from queues.clock import SYSTEM_CLOCK

PICKED_UP: Final = "1 picked up"
TICK_DURABLE: Final = "2 tick durable"
FRAME_HANDED: Final = "3 frame handed to the transport"
AT_SINK: Final = "4 frame at the sink"
VISIBLE: Final = "5 visible at the sink"
DURABLE: Final = "6 durable at the sink"
ACKNOWLEDGED: Final = "7 acknowledged"
CALLED: Final = "8 listener called"
APPLIED: Final = "9 listener committed"
#: The moments after the application's commit, in their order. The sixth and the later ones may overlap.
STAGES: Final = (
    PICKED_UP, TICK_DURABLE, FRAME_HANDED, AT_SINK, VISIBLE, DURABLE, ACKNOWLEDGED, CALLED, APPLIED,
)  # fmt: skip


class Moment(NamedTuple):
    """All entries up to number `seq` had passed `stage` at `at` (monotonic seconds, one clock for all processes)."""

    stage: str
    seq: int
    at: float


class Moments:
    """The moments of one process."""

    def __init__(self) -> None:
        """Begin without moments."""
        self.moments: list[Moment] = []

    def passed(self, stage: str, seq: int, at: float | None = None) -> None:
        """Record that all entries up to *seq* have passed *stage*, now or at *at*."""
        self.moments.append(Moment(stage, seq, SYSTEM_CLOCK.monotonic() if at is None else at))

    def watch_server(self) -> None:
        """Wrap the methods of a server in this process; before the server starts."""
        from lr_server.session.batches import Batches
        from lr_server.session.stream import FrameStream
        from queues.send_log.postgresql.ticks import TickTaker
        from sink.writer import SinkWriter

        read_at = 0.0

        def after_read(_given: Sequence[Any], _began: float, found: Any) -> None:  # noqa: ANN401 - any result
            nonlocal read_at
            if found is not None:
                read_at = SYSTEM_CLOCK.monotonic()

        def after_tick(_given: Sequence[Any], _began: float, group: Any) -> None:  # noqa: ANN401
            if group is not None:
                self.passed(PICKED_UP, group.tick.end_seq, read_at)
                self.passed(TICK_DURABLE, group.tick.end_seq)

        def after_frame(given: Sequence[Any], _began: float, _frame: Any) -> None:  # noqa: ANN401
            if given[2]:
                self.passed(FRAME_HANDED, given[2][-1].end.seq)

        def after_take(given: Sequence[Any], began: float, answer: Any) -> None:  # noqa: ANN401
            if given[1].HasField("batch") and given[1].batch.groups and hasattr(answer, "received"):
                self.passed(AT_SINK, answer.received.seq, began)
                self.passed(DURABLE, answer.received.seq)

        def after_ack(given: Sequence[Any], began: float, _goes_on: bool) -> None:
            self.passed(ACKNOWLEDGED, given[1].received.seq, began)

        _wrap(TickTaker, "_next", after_read)
        _wrap(TickTaker, "take", after_tick)
        _wrap(Batches, "_batch", after_frame)
        _wrap(SinkWriter, "_take", after_take)
        _wrap(FrameStream, "_noted", after_ack)


def _wrap(owner: type, name: str, after: Callable[[Sequence[Any], float, Any], None]) -> None:
    wrapped = getattr(owner, name)

    def wrapper(*given: Any) -> Any:  # noqa: ANN401 - any method
        began = SYSTEM_CLOCK.monotonic()
        result = wrapped(*given)
        after(given, began, result)
        return result

    setattr(owner, name, wrapper)


def budget(moments: Sequence[Moment], commits: Sequence[float], numbers: Sequence[int]) -> dict[str, float]:
    """Return the median milliseconds from the commit to each stage that was recorded.

    Transaction *k* committed at `commits[k]`, and its last entry has the number `numbers[k]`, which ascend.
    """
    found = {}
    for stage in STAGES:
        passed = sorted((moment for moment in moments if moment.stage == stage), key=lambda moment: moment.at)
        delays = _delays(passed, commits, numbers)
        if delays:
            found[stage] = percentile(delays, 0.5) * 1_000
    return found


def _delays(passed: Sequence[Moment], commits: Sequence[float], numbers: Sequence[int]) -> list[float]:
    progress = list(accumulate((moment.seq for moment in passed), max))
    delays, place = [], 0
    for commit, number in zip(commits, numbers, strict=True):
        while place < len(progress) and progress[place] < number:
            place += 1
        if place == len(progress):
            break
        delays.append(passed[place].at - commit)
    return delays
