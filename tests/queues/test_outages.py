"""The failures of an outage that a log tells, and the end of the outage."""

from queues.outages import FIRST_PAUSE, LONGEST_PAUSE, FailureRow, Outage


def test_the_first_failure_is_told_and_a_repetition_is_not() -> None:
    outage = Outage()
    assert outage.note("poll", "refused", 10.0) == FailureRow(1, 0.0)
    assert [outage.note("poll", "refused", 11.0 + n) for n in range(20)] == [None] * 20


def test_repetitions_are_told_rarely_and_with_their_number() -> None:
    outage = Outage()
    told = [now for now in range(24 * 3600) if outage.note("poll", "refused", now)]
    assert told[:4] == [0, FIRST_PAUSE, 3 * FIRST_PAUSE, 7 * FIRST_PAUSE]
    assert told[-1] - told[-2] == LONGEST_PAUSE
    assert len(told) < 35
    assert outage.end("poll", 24 * 3600) == FailureRow(24 * 3600, 24 * 3600)


def test_a_new_sentence_is_told_at_once_but_not_without_end() -> None:
    outage = Outage()
    assert outage.note("poll", "refused", 0.0)
    assert outage.note("poll", "starting", 1.0) == FailureRow(2, 1.0)
    assert outage.note("poll", "refused", 2.0) is None
    assert len([n for n in range(50) if outage.note("poll", f"port {n}", 3.0)]) < 10


def test_an_outage_ends_once_no_work_fails() -> None:
    outage = Outage()
    outage.note("poll", "refused", 0.0)
    outage.note("queue", "refused", 1.0)
    assert outage.end("poll", 2.0) is None
    assert outage.end("other", 2.0) is None
    assert outage.end("queue", 3.0) == FailureRow(2, 3.0)
    assert outage.end("queue", 4.0) is None


def test_work_that_has_ended_is_not_waited_for() -> None:
    outage = Outage()
    outage.note("poll", "refused", 0.0)
    outage.note("queue", "refused", 1.0)
    outage.forget("queue")
    assert outage.end("poll", 2.0) == FailureRow(2, 2.0)


def test_the_next_outage_is_told_from_its_beginning() -> None:
    outage = Outage()
    outage.note("poll", "refused", 0.0)
    outage.end("poll", 1.0)
    assert outage.note("poll", "refused", 500.0) == FailureRow(1, 0.0)
    assert outage.note("poll", "refused", 501.0) is None
