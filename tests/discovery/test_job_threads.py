"""Periodic jobs on a machine that refuses new threads."""

import logging

import pytest

from discovery.scheduler import Jobs
from queues.thread_lack import NO_THREAD
from tests.threads_refused import no_further_thread
from tests.waiting import eventually


def test_a_job_without_a_thread_is_told_once_and_runs_once_there_is_one(caplog: pytest.LogCaptureFixture) -> None:
    jobs = Jobs()
    calls: list[int] = []
    asked: list[int] = []
    with no_further_thread("lrq-job", "lrq-room"):
        jobs.add_periodic("work", 0.01, lambda: calls.append(1), lambda _name, _error: None)
        jobs.start()
        process = jobs._scheduler._process_jobs
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jobs._scheduler, "_process_jobs", lambda: [asked.append(1), process()][1])
            eventually(lambda: len(asked) > 3)
    eventually(lambda: len(calls) > 3)
    jobs.stop()
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert NO_THREAD in record.getMessage()
    assert record.exc_info is None


def test_jobs_that_could_not_start_end_at_once() -> None:
    jobs = Jobs()
    with no_further_thread("APScheduler"), pytest.raises(RuntimeError, match="can't start new thread"):
        jobs.start()
    jobs.stop()
