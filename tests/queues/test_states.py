"""Tables store a state as the word that people see."""

import pytest

from queues.states import STORED_INACTIVE, LinkWish, SessionState, SnapshotState


def test_the_words_that_the_database_keeps_stay():
    assert [state.value for state in SessionState] == [
        "idle", "negotiating", "backing off", "rolling back", "snapshot sync", "wait for apply", "log-entry sync",
        "draining", "failed", "stopped", "finished", "inactive",
    ]  # fmt: skip
    assert [wish.value for wish in LinkWish] == ["running", "draining", "ended", "released"]
    assert [state.value for state in SnapshotState] == [
        "requested", "building", "ready", "applied", "cancelled", "failed"
    ]  # fmt: skip


def test_a_session_that_an_earlier_version_left_out_is_inactive():
    assert {SessionState(word) for word in STORED_INACTIVE} == {SessionState.INACTIVE}
    assert STORED_INACTIVE == ("inactive", "left out")


def test_an_unknown_word_is_no_state():
    with pytest.raises(ValueError, match="'asleep' is not a valid SessionState"):
        SessionState("asleep")
