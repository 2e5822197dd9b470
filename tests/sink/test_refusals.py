"""Each refusal of a sink is logged once while it lasts, and a database that takes nothing is a trouble."""

import logging
import threading

import pytest
from sqlalchemy.exc import IntegrityError

from queues.clock import SystemClock
from queues.errors import LrqError, SetupError, StoreUnavailableError, TransientError
from queues.wire import replication_pb2 as pb
from sink.protocol.log_rules import Refuse
from sink.refusals import FORGOTTEN, PATIENCE, Refusals, RefusedStep
from sink.streams import MAX_SESSIONS
from tests.sink.frames import session

OURS, OTHERS = session(), session(source="lima")
FULL = StoreUnavailableError("the disk is full")
UNFIT = "nothing of policy from paris can be stored: the disk is full"


class MovedClock(SystemClock):
    """A clock whose time a test sets."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def refusals(clock: MovedClock, caplog: pytest.LogCaptureFixture) -> Refusals:
    caplog.set_level(logging.INFO, "lrq.sink")
    return Refusals(clock)


def note(refusals: Refusals, error: LrqError, by: pb.SessionId = OURS, step: RefusedStep = RefusedStep.FRAME) -> None:
    refusals.note(by, step, Refuse(pb.Refusal.TRANSIENT, str(error)), error)


def fail_for(refusals: Refusals, clock: MovedClock, seconds: float, error: LrqError = FULL) -> None:
    """Refuse a frame now, and again after *seconds*."""
    note(refusals, error)
    clock.now += seconds
    note(refusals, error)


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_reason_is_logged_once_until_it_changes_or_frames_are_taken_again(
    refusals: Refusals, clock: MovedClock, caplog: pytest.LogCaptureFixture
) -> None:
    for error in (FULL, FULL, StoreUnavailableError("the file is locked"), FULL):
        clock.now += 5
        note(refusals, error)
        refusals.end(OURS, RefusedStep.NEGOTIATION, stores=False)
    assert ["frame refused" in event for event in events(caplog)] == [True] * 3
    refusals.end(OURS, RefusedStep.FRAME, stores=True)
    refusals.end(OURS, RefusedStep.FRAME, stores=True)
    assert "frames are taken again" in events(caplog)[3]
    note(refusals, FULL)
    assert len(events(caplog)) == 5


def test_a_negotiation_that_is_refused_for_the_same_reason_writes_no_line_of_its_own(
    refusals: Refusals, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (*RefusedStep, *RefusedStep):
        note(refusals, FULL, step=step)
    refusals.end(OURS, RefusedStep.NEGOTIATION, stores=False)
    assert len(events(caplog)) == 1, "frames are still refused"
    refusals.end(OURS, RefusedStep.FRAME, stores=True)
    assert len(events(caplog)) == 2


def test_the_sessions_of_other_sites_have_lines_of_their_own(
    refusals: Refusals, caplog: pytest.LogCaptureFixture
) -> None:
    for by in (OURS, OTHERS, OURS, OTHERS):
        note(refusals, FULL, by)
    assert len(events(caplog)) == 2


def test_a_database_that_refuses_each_frame_for_some_seconds_is_a_trouble(
    refusals: Refusals, clock: MovedClock
) -> None:
    fail_for(refusals, clock, PATIENCE - 0.1)
    assert refusals.trouble == ""
    clock.now += 0.1
    assert refusals.trouble == UNFIT


@pytest.mark.parametrize("error", [SetupError("a right is missing"), StoreUnavailableError("full")])
def test_a_missing_right_is_a_trouble_too(refusals: Refusals, clock: MovedClock, error: LrqError) -> None:
    fail_for(refusals, clock, PATIENCE, error)
    assert str(error) in refusals.trouble


def test_a_refusal_of_the_content_is_no_trouble_of_the_server(refusals: Refusals, clock: MovedClock) -> None:
    fail_for(refusals, clock, PATIENCE, TransientError("a server of site tokyo stops"))
    refusals.note(OTHERS, RefusedStep.FRAME, Refuse(pb.Refusal.GAP, "a gap"), None)
    clock.now += PATIENCE
    assert refusals.trouble == ""


def test_a_constraint_that_refuses_each_frame_of_a_session_is_told_though_others_store(
    refusals: Refusals, clock: MovedClock
) -> None:
    refused = IntegrityError("INSERT", {}, Exception("the constraint"))
    words = "nothing of policy from paris can be stored: the constraint"
    for seconds in (0.0, PATIENCE - 0.1, 0.1):
        assert refusals.lasting == ""
        clock.now += seconds
        refusals.note(OURS, RefusedStep.FRAME, Refuse(pb.Refusal.TRANSIENT, "the constraint"), refused)
        refusals.end(OTHERS, RefusedStep.FRAME, stores=True)
    assert (refusals.lasting, refusals.trouble) == (words, "")
    refusals.end(OURS, RefusedStep.FRAME, stores=True)
    assert refusals.lasting == ""


@pytest.mark.parametrize(("seconds", "lasts"), [(FORGOTTEN - 0.1, True), (FORGOTTEN, False)])
def test_a_lasting_refusal_is_forgotten_without_further_frames(
    refusals: Refusals, clock: MovedClock, seconds: float, lasts: bool
) -> None:
    fail_for(refusals, clock, PATIENCE)
    clock.now += seconds
    assert refusals.lasting == (UNFIT if lasts else "")


def test_only_a_frame_with_entries_ends_the_trouble(refusals: Refusals, clock: MovedClock) -> None:
    fail_for(refusals, clock, PATIENCE)
    refusals.end(OURS, RefusedStep.FRAME, stores=False)
    assert refusals.trouble == UNFIT
    refusals.end(OURS, RefusedStep.FRAME, stores=True)
    assert refusals.trouble == ""


def test_a_database_that_takes_the_entries_of_another_session_is_fit(refusals: Refusals, clock: MovedClock) -> None:
    fail_for(refusals, clock, PATIENCE)
    refusals.end(OTHERS, RefusedStep.FRAME, stores=True)
    assert refusals.trouble == ""
    clock.now += PATIENCE
    assert refusals.trouble == UNFIT


def test_a_trouble_without_further_frames_is_forgotten_and_logged_anew_when_it_comes_again(
    refusals: Refusals, clock: MovedClock, caplog: pytest.LogCaptureFixture
) -> None:
    fail_for(refusals, clock, PATIENCE)
    clock.now += FORGOTTEN
    assert refusals.trouble == ""
    note(refusals, FULL)
    assert (refusals.trouble, len(events(caplog))) == ("", 2)


def test_the_number_of_remembered_refusals_is_bounded(refusals: Refusals) -> None:
    for number in range(MAX_SESSIONS + 10):
        note(refusals, FULL, session(source=f"site{number}"))
    assert len(refusals._present) == MAX_SESSIONS


def test_threads_may_note_and_end_at_the_same_time(refusals: Refusals) -> None:
    def work() -> None:
        for _ in range(200):
            note(refusals, FULL)
            refusals.end(OURS, RefusedStep.FRAME, stores=True)
            assert refusals.trouble == ""

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    refusals.end(OURS, RefusedStep.FRAME, stores=True)
    assert refusals._present == {}
