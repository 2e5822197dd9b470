"""The sink's rule for the end of a stream: only at its received position, and until something else arrives."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.positions import Position
from queues.receive.marks import NOT_ENDED, ReceiveState
from queues.wire.replication_pb2 import Refusal
from sink.protocol.log_rules import (
    EndHere,
    FrameTick,
    Nothing,
    Refuse,
    RollbackTo,
    TakeBatch,
    decide_batch,
    decide_end_of_stream,
    decide_rollback,
)

HERE = Position("b", 10)
STATE = ReceiveState(received=HERE, boundary_seq=10)
ENDED = replace(STATE, ended_seq=10)


def test_a_stream_ends_at_the_received_position():
    assert decide_end_of_stream(STATE, HERE) == EndHere(ENDED)
    assert ENDED.has_ended
    assert decide_end_of_stream(ENDED, HERE) == Nothing()


def test_a_stream_without_an_entry_ends_at_its_beginning():
    decision = decide_end_of_stream(ReceiveState(), Position("", 0))
    assert isinstance(decision, EndHere)
    assert decision.marks.has_ended


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (Position("b", 11), Refusal.GAP),
        (Position("b", 9), Refusal.NO_STREAM_BEGIN),
        (Position("c", 10), Refusal.NO_STREAM_BEGIN),
    ],
)
def test_another_position_is_refused(end: Position, kind: int):
    refuse = decide_end_of_stream(STATE, end)
    assert isinstance(refuse, Refuse)
    assert refuse.kind == kind


def test_no_stream_ends_within_a_tick():
    refuse = decide_end_of_stream(replace(STATE, boundary_seq=8), HERE)
    assert isinstance(refuse, Refuse)
    assert refuse.kind == Refusal.GAP


@given(st.integers(1, 5), st.booleans())
def test_anything_new_after_the_end_begins_the_stream_again(rows: int, is_quiet: bool):
    tick = FrameTick("b", 10, 10 + rows, 0 if is_quiet else rows)
    decision = decide_batch(ENDED, HERE, [tick], cut_passed=False)
    assert isinstance(decision, TakeBatch)
    assert not decision.marks.has_ended
    assert decision.marks.ended_seq == NOT_ENDED


def test_a_repeated_tick_and_a_question_leave_the_end():
    for ticks in ([], [FrameTick("b", 5, 10, 5)]):
        decision = decide_batch(ENDED, Position("b", 5 if ticks else 10), ticks, cut_passed=False)
        assert isinstance(decision, TakeBatch)
        assert decision.marks.has_ended


def test_a_rollback_takes_the_end_away():
    decision = decide_rollback(ENDED, Position("b", 5), 0, known=True)
    assert isinstance(decision, RollbackTo)
    assert not decision.marks.has_ended


def test_an_older_writer_that_ignores_the_end_ends_it_too():
    assert not replace(ENDED, received=Position("b", 12), boundary_seq=12).has_ended
