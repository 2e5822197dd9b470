"""The questions of an idle session: none while the subscriber has applied everything, ever fewer without progress."""

from lr_server.session.inflight import Inflight
from lr_server.session.sink_progress import Questions, SinkProgress
from queues.clock import SYSTEM_CLOCK


def idle_session() -> tuple[SinkProgress, Inflight, Questions]:
    """Return a session with a heartbeat of 1 s, whose subscriber is behind."""
    progress, inflight = SinkProgress(), Inflight(max_frames=9, max_bytes=9, clock=SYSTEM_CLOCK)
    progress.note(9, 4)
    return progress, inflight, Questions(progress, inflight, heartbeat=1, idle=5)


def test_the_pauses_double_without_progress_and_begin_anew_with_progress():
    progress, _, questions = idle_session()
    pauses = []
    for _ in range(4):
        assert questions.is_due(questions.pause)
        assert not questions.is_due(questions.pause - 0.1)
        pauses.append(questions.pause)
        questions.asked()
    assert pauses == [1, 2, 4, 5]
    progress.note(9, 6)
    assert questions.is_due(1)


def test_a_subscriber_that_has_applied_everything_is_not_asked():
    progress, _, questions = idle_session()
    progress.note(9, 9)
    assert (questions.pause, questions.is_due(1_000)) == (5, False)


def test_frames_in_flight_bring_the_progress_without_a_question():
    _, inflight, questions = idle_session()
    assert list(inflight.admit(9, 1, lambda: True)) == []
    assert (questions.pause, questions.is_due(1_000)) == (1, False)


def test_a_sink_cannot_have_applied_more_than_it_has_received():
    progress, _, _ = idle_session()
    progress.note(9, 2**64 - 1)
    assert progress.applied_seq == 9
