"""Whether a source can send applied entries again: every case of a small history, and the words of each refusal."""

import itertools
from dataclasses import replace

import pytest

from lr_server.protocol.histories import Branch, OfferedSnapshot, SinkHistory, SourceHistory, TickKey
from lr_server.protocol.negotiation import Resume, decide
from lr_server.protocol.replays import OrderedReplay, ReplayTarget, refuse_replay
from queues.positions import Position

TICKS = tuple(TickKey("b", seq, seq) for seq in (10, 20, 30, 40))
BRANCH = (Branch("b", 0),)
SOURCE = SourceHistory(BRANCH, newest_seq=40, known=frozenset(TICKS), is_whole=True)
SINK = SinkHistory(Position("b", 40), boundary_seq=40, applied_seq=30, headers=TICKS[::-1])
ORDER = OrderedReplay("o", from_seq=21)
AFTER_20 = ReplayTarget(TICKS[1], "b")


def refused(
    source: SourceHistory = SOURCE,
    sink: SinkHistory = SINK,
    order: OrderedReplay = ORDER,
    target: ReplayTarget | None = AFTER_20,
    initial_sync: str = "auto",
) -> str:
    return refuse_replay(source, sink, order, target, initial_sync=initial_sync)  # type: ignore[arg-type]


CASES = list(itertools.product([0, 10, 20, 30, 40], [0, 10, 20, 25, 40], [0, 1, 2, 4], ["", "id/9"], [True, False]))


@pytest.mark.parametrize(("after", "lost", "headers", "cut", "is_whole"), CASES)
@pytest.mark.parametrize("initial_sync", ["auto", "log", "snapshot"])
def test_a_granted_replay_always_resumes_from_there_and_never_needs_a_snapshot(
    after: int, lost: int, headers: int, cut: str, initial_sync: str, *, is_whole: bool
) -> None:
    source = replace(SOURCE, trimmed_seq=lost, lost_seq=lost, is_whole=is_whole)
    sink = replace(SINK, received=Position("b", 40, cut), headers=SINK.headers[:headers])
    target = TickKey("b", after, after)
    why = refused(source, sink, target=ReplayTarget(target, "b"), initial_sync=initial_sync)
    gone = SinkHistory(
        Position("b", after, cut),
        after,
        min(after, 30),
        (target, *(each for each in sink.headers if each.seq < after)) if after else (),
    )
    known = replace(source, known=source.known | {target})
    resumed = decide(known, gone, initial_sync=initial_sync)  # type: ignore[arg-type]
    if not why:
        assert resumed == Resume(Position("b", after, cut), max(after, lost), resumed.reason)
    goes_on = isinstance(decide(source, sink, initial_sync=initial_sync), Resume)  # type: ignore[arg-type]
    assert (why == "") is (goes_on and after < 40 and after >= lost and isinstance(resumed, Resume))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target": None}, "the source has taken no entries since then"),
        ({"target": replace(AFTER_20, group="tokyo")}, "a member of the replicas tokyo"),
        ({"target": ReplayTarget(TICKS[3], "b")}, "received entries up to 40 only"),
        ({"source": replace(SOURCE, trimmed_seq=30, lost_seq=30)}, "up to 30 are trimmed at the source"),
        ({"target": replace(AFTER_20, regrouped_seq=30)}, "groups of replicas have changed at 30"),
        ({"order": replace(ORDER, branch="other")}, "other@21 is not in the source's history, which has b there"),
        ({"source": replace(SOURCE, snapshot=OfferedSnapshot("s"))}, "snapshot s was requested"),
        ({"source": replace(SOURCE, known=frozenset())}, "the log does not go on now"),
        (
            {"target": ReplayTarget(TickKey("b", 0, 0), "b"), "initial_sync": "snapshot"},
            "the log could not go on from there",
        ),
    ],
)
def test_each_refusal_says_its_reason(changes: dict[str, object], words: str) -> None:
    assert words in refused(**changes)  # type: ignore[arg-type]


def test_a_named_branch_that_is_the_source_s_is_granted() -> None:
    assert refused(order=replace(ORDER, branch="b")) == ""
