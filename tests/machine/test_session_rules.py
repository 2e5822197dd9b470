"""What the machine promises over several events."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lr_server.diagram import diagram
from lr_server.effects import (
    Disconnect,
    Effect,
    Ignored,
    MarkSnapshotApplied,
    Negotiate,
    RetryAfter,
    StopSending,
    StreamLog,
    TransferSnapshot,
    WatchSnapshot,
)
from lr_server.events import (
    BatchAcked,
    ChunkAcked,
    Event,
    Negotiated,
    PeerLost,
    RetryDue,
    SnapshotApplied,
    SnapshotAttemptFailed,
    SnapshotReady,
    SnapshotRequested,
    SnapshotSent,
    Started,
    StopRequested,
)
from lr_server.machine import advance
from lr_server.negotiation import Resume, ResumeSnapshot
from lr_server.states import Idle, LogEntrySync, Mode, SnapshotAwaiting, State, Stopped, describe
from queues.positions import Position
from tests.machine.transitions import EVENTS, STATES

BASE = Position("b", 100, "id/120")


def after(state: State, *events: Event) -> State:
    return reduce(lambda now, event: advance(now, event)[0], events, state)


def asked(state: State, *events: Event) -> list[Effect]:
    effects: list[Effect] = []
    for event in events:
        state, more = advance(state, event)
        effects += more
    return effects


def test_a_first_sync_is_snapshot_then_log_from_its_base():
    effects = asked(
        STATES["requesting"],
        SnapshotRequested("s", "nothing yet"),
        SnapshotReady("s"),
        ChunkAcked("s", 200),
        SnapshotSent("s"),
        SnapshotApplied("s", BASE),
    )
    kinds = (WatchSnapshot, TransferSnapshot, MarkSnapshotApplied, StreamLog)
    assert [effect for effect in effects if isinstance(effect, kinds)] == [
        WatchSnapshot("s"),
        TransferSnapshot("s", 0),
        MarkSnapshotApplied("s"),
        StreamLog(BASE, 100),
    ]


def test_a_forced_request_stops_the_log_before_anything_else():
    effects = asked(LogEntrySync(BASE, Mode.LIVE), SnapshotRequested("s", "wanted"))
    assert effects[:2] == [StopSending(), WatchSnapshot("s")]


def test_a_snapshot_in_transfer_goes_on_at_the_row_that_the_sink_has():
    lost = after(STATES["transferring"], ChunkAcked("ours", 80), PeerLost("cut"), RetryDue())
    state, effects = advance(lost, Negotiated(ResumeSnapshot("ours", 80, "why")))
    assert TransferSnapshot("ours", 80) in effects
    assert advance(state, ChunkAcked("ours", 80))[0] == state


def test_of_two_requests_only_the_newer_one_can_be_applied():
    state = after(STATES["transferring"], SnapshotRequested("newer", "wanted"))
    assert advance(state, SnapshotApplied("ours", BASE))[0] == state
    assert after(state, SnapshotReady("ours")) == state
    assert isinstance(
        after(state, SnapshotReady("newer"), SnapshotSent("newer"), SnapshotApplied("newer", BASE)), LogEntrySync
    )


def test_a_request_that_comes_during_a_negotiation_is_not_lost():
    state = after(STATES["negotiating"], SnapshotRequested("s", "wanted"))
    assert asked(state, Negotiated(Resume(BASE, 100, "why"))) == [Negotiate()]


def test_failures_count_up_until_the_sink_acknowledges_something_new():
    state: State = LogEntrySync(BASE)
    for attempt in (1, 2, 3):
        state, effects = advance(state, PeerLost("cut"))
        assert RetryAfter(attempt) in effects
        state = after(state, RetryDue(), Negotiated(Resume(BASE, 100, "why")))
    state = after(state, BatchAcked(BASE))
    assert RetryAfter(4) in asked(state, PeerLost("cut"))
    state = after(state, BatchAcked(Position("b", 101, "id/120")))
    assert RetryAfter(1) in asked(state, PeerLost("cut"))


@pytest.mark.parametrize("name", STATES)
def test_nothing_that_may_fail_comes_before_the_retry(name: str):
    for event in EVENTS.values():
        kinds = [type(effect) for effect in asked(STATES[name], event)]
        assert RetryAfter not in kinds or set(kinds[: kinds.index(RetryAfter)]) <= {Disconnect}


def test_a_cut_that_is_passed_at_the_same_position_is_news():
    passed = Position("b", 100)
    assert after(LogEntrySync(BASE), BatchAcked(passed)) == LogEntrySync(passed)


def test_status_tells_for_what_a_session_waits():
    state = after(SnapshotAwaiting("s", "the sink has nothing yet"), SnapshotAttemptFailed("s", "disk full"))
    assert describe(state) == (
        "snapshot sync",
        "waiting for the provider of snapshot s (the last attempt failed: disk full): the sink has nothing yet",
    )


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=30))
def test_nothing_is_asked_for_after_a_stop(names: list[str]):
    state = after(Idle(), Started(), StopRequested())
    assert isinstance(state, Stopped)
    assert {type(effect) for effect in asked(state, *(EVENTS[name] for name in names))} <= {Ignored}


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=60))
def test_a_connection_that_is_given_up_is_always_told(names: list[str]):
    """A state without connection is entered only through Disconnect, or kept."""
    state: State = Idle()
    offline = ("idle", "backing off", "failed", "stopped")
    for name in names:
        was_offline = describe(state).name in offline
        state, effects = advance(state, EVENTS[name])
        if describe(state).name in offline and not was_offline:
            assert Disconnect() in effects


def test_the_diagram_shows_every_state_and_both_ways_of_reading():
    drawn = diagram()
    assert drawn.startswith("stateDiagram-v2\n    [*] --> Idle\n")
    for line in (
        "Idle --> Negotiating: started",
        "WaitForApply --> CatchUp: snapshot applied",
        "CatchUp --> Live: caught up",
        "Live --> CatchUp: fell behind",
        "Failed --> Negotiating: retry due",
    ):
        assert f"    {line}\n" in drawn
