"""A thread that ends by an error says so."""

import asyncio
import logging
import threading

import pytest

from discovery.scheduler import Jobs
from discovery.threads import watched
from queues.errors import ThreadEndedError, UsageError
from queues.logs import FIELDS
from queues.thread_lack import NO_THREAD, PYTHON_ENDS
from tests.threads_refused import ENDING, no_further_thread
from tests.waiting import eventually

ERRORS = [KeyError("bug"), asyncio.CancelledError(), SystemExit(1), KeyboardInterrupt(), GeneratorExit()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_that_ends_a_thread_is_logged_and_passed_on(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        raise error

    told: list[ThreadEndedError] = []
    thread = watched("lrq-example", work, told.append)
    thread.start()
    thread.join()
    assert "the thread lrq-example has ended by an error of its own: " + type(error).__name__ in str(told[0])
    assert told[0].__cause__ is error
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "in work" in getattr(record, FIELDS)["exception"]


def test_a_thread_that_ends_itself_does_not_wait_for_its_end() -> None:
    told: list[ThreadEndedError] = []
    thread = watched("lrq-example", lambda: thread.join(), told.append)
    thread.join()
    thread.start()
    thread.join()
    assert told == []


def test_a_thread_that_ends_without_an_error_tells_nothing() -> None:
    told: list[ThreadEndedError] = []
    thread = watched("lrq-example", lambda: None, told.append)
    thread.start()
    thread.join()
    assert told == []


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_a_job_is_reported_and_the_job_is_called_again(error: BaseException) -> None:
    def work() -> None:
        calls.append(1)
        raise error

    calls: list[int] = []
    reported: list[Exception] = []
    jobs = Jobs()
    jobs.add_periodic("work", 0.01, work, lambda _name, problem: reported.append(problem))
    jobs.start()
    try:
        eventually(lambda: len(calls) > 1)
        assert type(error).__name__ in f"{type(reported[0]).__name__}: {reported[0]}"
    finally:
        jobs.stop()


def test_the_end_of_the_thread_that_starts_the_jobs_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> float:
        raise MemoryError

    told: list[ThreadEndedError] = []
    jobs = Jobs(on_ended=told.append)
    jobs.start()
    # A fault of the library: its loop asks this function for the next jobs.
    monkeypatch.setattr(jobs._scheduler, "_process_jobs", fail)
    jobs.add_periodic("work", 3600, lambda: None, lambda _name, _error: None)
    assert "MemoryError" in str(eventually(lambda: told)[0])
    jobs.stop()


def test_a_thread_that_could_not_start_is_not_waited_for() -> None:
    thread = watched("lrq-example", lambda: None, lambda _error: None)
    with no_further_thread("lrq-example"), pytest.raises(RuntimeError, match="can't start new thread"):
        thread.start()
    thread.join()


def test_a_thread_that_does_not_start_because_python_ends_has_an_error_of_lrq() -> None:
    thread = watched("lrq-example", lambda: None, lambda _error: None)
    with no_further_thread("lrq-example", words=ENDING), pytest.raises(UsageError) as caught:
        thread.start()
    assert str(caught.value) == PYTHON_ENDS
    thread.join()


def test_a_thread_that_ends_for_want_of_another_one_tells_the_cure(caplog: pytest.LogCaptureFixture) -> None:
    told: list[ThreadEndedError] = []
    thread = watched("lrq-example", lambda: threading.Thread(name="lrq-other").start(), told.append)
    with no_further_thread("lrq-other"):
        thread.start()
        thread.join()
    assert NO_THREAD in str(told[0])
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "exception" not in getattr(record, FIELDS)
