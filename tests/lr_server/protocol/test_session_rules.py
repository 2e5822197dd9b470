"""Promises of the machine over several events."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lr_server.protocol.diagram import diagram
from lr_server.protocol.effects import (
    Disconnect,
    Effect,
    EndStream,
    Ignored,
    MarkSnapshotApplied,
    Negotiate,
    RetryAfter,
    StopSending,
    StreamLog,
    TransferSnapshot,
    WatchSnapshot,
)
from lr_server.protocol.events import (
    BatchAcked,
    ChunkAcked,
    EndOrdered,
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
from lr_server.protocol.machine import advance
from lr_server.protocol.negotiation import Resume, ResumeSnapshot
from lr_server.protocol.states import Idle, LogEntrySync, Mode, SnapshotAwaiting, State, Stopped, describe
from queues.positions import Position
from queues.states import SessionState
from tests.lr_server.protocol.transitions import EVENTS, STATES

BASE = Position("b", 100, "id/120")


def after(state: State, *events: Event) -> State:
    return reduce(lambda now, event: advance(now, event)[0], events, state)


def asked(state: State, *events: Event) -> list[Effect]:
    effects: list[Effect] = []
    for event in events:
        state, more = advance(state, event)
        effects += more
    return effects


def test_a_first_sync_is_a_snapshot_and_then_the_log_from_its_base():
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
        TransferSnapshot("s"),
        MarkSnapshotApplied("s"),
        StreamLog(BASE, 100),
    ]


def test_a_forced_request_first_stops_the_log():
    effects = asked(LogEntrySync(BASE, Mode.LIVE), SnapshotRequested("s", "wanted"))
    assert effects[:2] == [StopSending(), WatchSnapshot("s")]


def test_a_snapshot_in_transfer_continues_at_the_last_row_of_the_sink():
    lost = after(STATES["transferring"], ChunkAcked("ours", 80), PeerLost("cut"), RetryDue())
    state, effects = advance(lost, Negotiated(ResumeSnapshot("ours", 80, "why")))
    assert TransferSnapshot("ours") in effects
    assert advance(state, ChunkAcked("ours", 80))[0] == state


def test_only_the_newer_of_two_requests_can_be_applied():
    state = after(STATES["transferring"], SnapshotRequested("newer", "wanted"))
    assert advance(state, SnapshotApplied("ours", BASE))[0] == state
    assert after(state, SnapshotReady("ours")) == state
    assert isinstance(
        after(state, SnapshotReady("newer"), SnapshotSent("newer"), SnapshotApplied("newer", BASE)), LogEntrySync
    )


def test_a_request_during_a_negotiation_is_not_lost():
    state = after(STATES["negotiating"], SnapshotRequested("s", "wanted"))
    assert asked(state, Negotiated(Resume(BASE, 100, "why"))) == [Negotiate()]


def test_failures_count_up_until_the_sink_acknowledges_a_new_position():
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
def test_the_retry_is_scheduled_before_any_effect_that_may_fail(name: str):
    for event in EVENTS.values():
        kinds = [type(effect) for effect in asked(STATES[name], event)]
        assert RetryAfter not in kinds or set(kinds[: kinds.index(RetryAfter)]) <= {Disconnect}


def test_a_passed_cut_at_the_same_position_changes_the_state():
    passed = Position("b", 100)
    assert after(LogEntrySync(BASE), BatchAcked(passed)) == LogEntrySync(passed)


def test_the_states_of_the_machine_have_all_names_but_inactive():
    words = {describe(state).name for state in STATES.values()}
    assert words == {*SessionState} - {SessionState.INACTIVE}
    assert {type(word) for word in words} == {SessionState}


def test_the_status_names_the_reason_of_a_wait():
    state = after(SnapshotAwaiting("s", "the sink has nothing yet"), SnapshotAttemptFailed("s", "disk full"))
    assert describe(state) == (
        "snapshot sync",
        "waiting for the provider of snapshot s (the last attempt failed: disk full): the sink has nothing yet",
    )


def test_a_further_try_shows_why_the_last_one_failed_until_the_sink_answers():
    state = after(LogEntrySync(BASE), PeerLost("no answer"), RetryDue())
    words = ("negotiating", "the last try failed: no answer")
    assert describe(state) == words
    assert describe(after(state, SnapshotRequested("s", "wanted"))) == words
    again = after(state, Negotiated(Resume(BASE, 100, "why")), SnapshotRequested("s", "wanted"))
    assert describe(after(Idle(), Started())) == ("negotiating", "")
    assert "no answer" not in describe(again).detail


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=30))
def test_a_stopped_session_has_no_more_effects(names: list[str]):
    state = after(Idle(), Started(), StopRequested())
    assert isinstance(state, Stopped)
    assert {type(effect) for effect in asked(state, *(EVENTS[name] for name in names))} <= {Ignored}


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=60))
def test_a_session_that_loses_its_connection_always_disconnects(names: list[str]):
    """The machine enters a state without connection only with the effect `Disconnect`."""
    state: State = Idle()
    offline = (SessionState.IDLE, SessionState.BACKING_OFF, SessionState.FAILED, SessionState.STOPPED)
    for name in names:
        was_offline = describe(state).name in offline
        state, effects = advance(state, EVENTS[name])
        if describe(state).name in offline and not was_offline:
            assert Disconnect() in effects


def test_the_diagram_shows_every_state_and_both_modes_of_reading():
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


@pytest.mark.parametrize("order", [0, 1])
def test_the_end_of_a_stream_is_sent_once_and_after_the_acknowledgement_of_the_last_entry(order: int):
    sending, ordered = LogEntrySync(Position("b", 100), Mode.LIVE), EndOrdered(103, order)
    acked = [BatchAcked(Position("b", seq)) for seq in (102, 103, 104)]
    assert asked(sending, ordered, acked[0]).count(EndStream()) == 0
    assert asked(sending, ordered, *acked[:2]).count(EndStream()) == 1
    assert asked(sending, ordered, *acked).count(EndStream()) == 1
    # The end may be known only after the sink has everything.
    assert asked(sending, *acked, ordered).count(EndStream()) == 1
