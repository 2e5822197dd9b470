"""The failures of an outage that a log tells, and the end of the failures."""

from queues.failure_log import FIRST_PAUSE, LONGEST_PAUSE, FailureLog, FailureRow


def test_the_first_failure_is_told_and_a_repetition_is_not() -> None:
    failures = FailureLog()
    assert failures.note("poll", "refused", 10.0) == FailureRow(1, 0.0)
    assert [failures.note("poll", "refused", 11.0 + n) for n in range(20)] == [None] * 20


def test_repetitions_are_told_rarely_and_with_their_number() -> None:
    failures = FailureLog()
    told = [now for now in range(24 * 3600) if failures.note("poll", "refused", now)]
    assert told[:4] == [0, FIRST_PAUSE, 3 * FIRST_PAUSE, 7 * FIRST_PAUSE]
    assert told[-1] - told[-2] == LONGEST_PAUSE
    assert len(told) < 35
    assert failures.end("poll", 24 * 3600) == FailureRow(24 * 3600, 24 * 3600)


def test_a_new_sentence_is_told_at_once_but_not_without_end() -> None:
    failures = FailureLog()
    assert failures.note("poll", "refused", 0.0)
    assert failures.note("poll", "starting", 1.0) == FailureRow(2, 1.0)
    assert failures.note("poll", "refused", 2.0) is None
    assert len([n for n in range(50) if failures.note("poll", f"port {n}", 3.0)]) < 10


def test_an_outage_ends_once_no_work_fails() -> None:
    failures = FailureLog()
    failures.note("poll", "refused", 0.0)
    failures.note("queue", "refused", 1.0)
    assert failures.end("poll", 2.0) is None
    assert failures.end("other", 2.0) is None
    assert failures.end("queue", 3.0) == FailureRow(2, 3.0)
    assert failures.end("queue", 4.0) is None


def test_work_that_has_ended_is_not_waited_for() -> None:
    failures = FailureLog()
    failures.note("poll", "refused", 0.0)
    failures.note("queue", "refused", 1.0)
    failures.forget("queue")
    assert failures.end("poll", 2.0) == FailureRow(2, 2.0)


def test_the_next_outage_is_told_from_its_beginning() -> None:
    failures = FailureLog()
    failures.note("poll", "refused", 0.0)
    failures.end("poll", 1.0)
    assert failures.note("poll", "refused", 500.0) == FailureRow(1, 0.0)
    assert failures.note("poll", "refused", 501.0) is None
