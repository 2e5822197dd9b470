"""The decision about a promotion: the histories agree, and the member has the entries of the active one."""

from typing import Any

import pytest

from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.promotion import Differs, MayServe, MemberStanding, NotYet, decide_promotion
from queues.states import SessionState

B = SiteId("tokyo-b")
POLICY = ClientName("policy")
STARTS = [("first", 0), ("second", 50)]


def standing(branch: str = "second", seq: int = 80, **other: Any) -> MemberStanding:
    values = {"state": SessionState.LOG_ENTRY_SYNC, "reason": "live", "applied": Position(branch, seq), **other}
    return MemberStanding(**values)


def decided(target: MemberStanding | None, needed: Position | None = None) -> MayServe | NotYet | Differs:
    clients = {} if target is None else {POLICY: target}
    return decide_promotion(B, clients, {} if needed is None else {POLICY: needed}, STARTS)


@pytest.mark.parametrize(
    ("target", "needed"),
    [
        (standing(), Position("second", 80)),
        (standing(seq=90), Position("second", 80)),
        (standing(), Position("first", 50)),
        (standing("first", 40), Position("first", 40)),
        (standing(seq=0), None),
        (None, None),
    ],
)
def test_a_member_with_everything_that_the_active_one_applied_is_ready(
    target: MemberStanding | None, needed: Position | None
) -> None:
    assert decided(target, needed) == MayServe()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (standing(seq=79), "tokyo-b has applied policy up to 79 of 80"),
        (standing(is_complete=False), "tokyo-b has not applied the beginning of policy yet"),
        (standing(applied=None), "tokyo-b has not applied the beginning of policy yet"),
        (
            standing(state=SessionState.BACKING_OFF, reason="no answer"),
            "the session of policy to tokyo-b does not follow the log (backing off: no answer)",
        ),
        (
            standing(state=SessionState.STOPPED, reason=""),
            "the session of policy to tokyo-b does not follow the log (stopped)",
        ),
        (
            standing(state=SessionState.SNAPSHOT_SYNC, reason=""),
            "the session of policy to tokyo-b does not follow the log (snapshot sync)",
        ),
    ],
)
def test_a_member_that_lacks_entries_may_still_get_them(target: MemberStanding, words: str) -> None:
    assert decided(target, Position("second", 80)) == NotYet(words)


@pytest.mark.parametrize(
    ("target", "needed", "words"),
    [
        (None, Position("second", 80), "tokyo-b has no session for client policy"),
        (standing("third"), Position("second", 80), "tokyo-b has applied policy up to third@80, which is not in"),
        (standing("first", 60), Position("first", 40), "tokyo-b has applied policy up to first@60, which is not in"),
        (standing(), Position("first", 60), "the active member has applied policy up to first@60, which the history"),
        (
            standing(state=SessionState.FAILED, reason="another site answers"), None,
            "the session of policy to tokyo-b does not follow the log (failed: another site answers)",
        ),
        (standing(state=SessionState.INACTIVE, reason=""), None, "the session of policy to tokyo-b does not follow"),
    ],
)  # fmt: skip
def test_a_member_with_another_history_or_without_a_session_is_refused(
    target: MemberStanding | None, needed: Position | None, words: str
) -> None:
    found = decided(target, needed)
    assert isinstance(found, Differs)
    assert found.reason.startswith(words)
