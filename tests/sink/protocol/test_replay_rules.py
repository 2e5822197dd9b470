"""Whether a receive queue may go back because of an order: every combination of the facts."""

import itertools
from dataclasses import replace

import pytest

from queues.positions import Position
from queues.receive.marks import NOT_ENDED, ReceiveState
from sink.protocol.replay_rules import QueueFacts, gone_back, refuse_replay

#: A queue that may go back to 20 up to 29.
FACTS = QueueFacts(True, applied_seq=30, floor_seq=20, undoes=True, is_undoing=False, has_ended=False)
FLAGS = list(itertools.product([True, False], repeat=5))


@pytest.mark.parametrize("after", [None, 0, 19, 20, 29, 30, 31])
@pytest.mark.parametrize(("is_in_log", "undoes", "is_undoing", "has_ended", "undo"), FLAGS)
def test_a_queue_goes_back_only_where_nothing_speaks_against_it(
    after: int | None, *, is_in_log: bool, undoes: bool, is_undoing: bool, has_ended: bool, undo: bool
) -> None:
    facts = QueueFacts(is_in_log, 30, 20, undoes, is_undoing, has_ended)
    allowed = (
        is_in_log
        and not has_ended
        and (after is None or 20 <= after < 30)
        and (undoes or not undo)
        and (undo or not is_undoing)
    )
    assert (refuse_replay(facts, after, undo=undo) == "") is allowed


@pytest.mark.parametrize(
    ("facts", "after", "undo", "words"),
    [
        (replace(FACTS, has_ended=True), 25, True, "the link has ended"),
        (replace(FACTS, is_in_log=False), 25, True, "has not applied the newest snapshot"),
        (FACTS, 30, True, "entries up to 30 are applied, so none after 30 can come again"),
        (FACTS, 19, True, "entries up to 20 came with a snapshot: order those from 21"),
        (replace(FACTS, undoes=False), 25, True, "the listener has no on_rollback"),
        (replace(FACTS, is_undoing=True), 25, False, "the listener still undoes"),
    ],
)
def test_each_refusal_says_its_reason(facts: QueueFacts, after: int, words: str, *, undo: bool) -> None:
    assert words in refuse_replay(facts, after, undo=undo)


def test_the_marks_go_back_to_a_whole_tick_and_keep_the_cut() -> None:
    marks = ReceiveState(received=Position("b", 35, "id/7"), boundary_seq=30, ended_seq=35, entries_total=9)
    back = gone_back(marks, Position("a", 20))
    assert (back.received, back.boundary_seq, back.ended_seq) == (Position("a", 20, "id/7"), 20, NOT_ENDED)
    assert back.entries_total == 9
