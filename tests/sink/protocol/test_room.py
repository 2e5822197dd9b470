"""The room of a receive queue, for every place of its subscriber."""

from dataclasses import replace

import pytest

from queues.positions import Position
from queues.receive.marks import ENTRY_BYTES, ReceiveState, stored_size
from queues.wire.replication_pb2 import Refusal
from sink.protocol.room import applied_up_to, counted_from, refuse_full, room_left, unapplied_bytes


def marks(boundary: int, *, seq: int | None = None, received: int) -> ReceiveState:
    """Return the state of a queue up to *seq*, with a number of received bytes."""
    at = Position("b1", boundary if seq is None else seq)
    return ReceiveState(received=at, boundary_seq=boundary, bytes_total=received)


def test_an_entry_counts_as_its_payload_and_a_constant():
    assert stored_size(10, 2) == 2 * ENTRY_BYTES + 10


@pytest.mark.parametrize(
    ("state", "applied_seq", "applied_bytes", "unapplied"),
    [
        (marks(0, received=0), 0, 0, 0),
        (marks(10, received=1_000), 0, 0, 1_000),
        (marks(10, received=1_000), 4, 400, 600),
        (marks(10, received=1_000), 10, 1_000, 0),
        # The rows of an open tick count only while earlier entries can be applied.
        (marks(10, seq=15, received=1_500), 4, 400, 1_100),
        (marks(10, seq=15, received=1_500), 10, 1_000, 0),
        # A writer or a subscriber of an earlier version has not counted.
        (marks(10, received=100), 4, 400, 0),
        (marks(10, received=1_000), 10, 0, 0),
    ],
)
def test_entries_that_can_be_applied_and_are_not_take_the_room(state, applied_seq, applied_bytes, unapplied):
    assert unapplied_bytes(state, applied_seq, applied_bytes) == unapplied
    for limit in (1, 600, 1_000, 5_000):
        room = max(limit - unapplied, 0)
        assert room_left(limit, state, applied_seq, applied_bytes) == room
        refusal = refuse_full(limit, state, applied_seq, applied_bytes)
        assert (refusal is not None) == (room == 0)


def test_without_a_limit_no_room_is_told_and_no_entry_refused():
    assert room_left(0, marks(10, received=1_000), 0, 0) is None
    assert refuse_full(0, marks(10, received=1_000), 0, 0) is None


def test_the_refusal_names_the_bytes_and_the_setting():
    refusal = refuse_full(700, marks(10, received=1_000), 0, 0)
    assert refusal is not None
    assert refusal.kind == Refusal.FULL
    assert "1000 bytes" in refusal.reason
    assert "receive_bytes is 700" in refusal.reason


@pytest.mark.parametrize(
    ("state", "applied_seq", "counted"),
    [
        (marks(10, received=1_000), 10, 700),
        (marks(10, received=1_000), 9, 1_000),
        (marks(10, seq=11, received=1_000), 10, 1_000),
    ],
)
def test_an_empty_queue_begins_to_count_anew(state, applied_seq, counted):
    assert counted_from(state, applied_seq, 700) == counted


@pytest.mark.parametrize(
    ("state", "applied_seq", "applied_bytes", "told"),
    [
        # No subscriber has ever worked here, and no entry has come.
        (marks(10, received=0), 0, 0, 10),
        (marks(10, received=100), 0, 0, 0),
        (marks(10, received=400), 4, 400, 10),
        (marks(10, received=401), 4, 400, 4),
        # A snapshot waits for the subscriber, and no log entry has followed.
        (replace(marks(10, received=400), sync_id="s1"), 0, 400, 0),
        (replace(marks(10, received=400), sync_id="s1"), 7, 400, 10),
        # The rows of an open tick wait.
        (marks(4, seq=9, received=500), 4, 400, 4),
        # A writer or a subscriber of an earlier version has not counted.
        (marks(10, received=100), 4, 400, 4),
    ],
)
def test_a_sink_tells_how_far_no_received_entry_waits(state, applied_seq, applied_bytes, told):
    assert applied_up_to(state, applied_seq, applied_bytes) == told
