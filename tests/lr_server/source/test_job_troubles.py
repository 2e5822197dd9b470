"""The troubles of periodic jobs: the log tells each once while it lasts."""

import logging

import pytest

from lr_server.source.job_troubles import JobTroubles
from queues.errors import StoreUnavailableError


def test_a_job_that_fails_again_and_again_is_logged_once_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    troubles = JobTroubles()
    for reason in ("the disk is full", "the disk is full", "the file is locked"):
        troubles.note("trim", StoreUnavailableError(reason))
    assert troubles.present == {"trim": "the file is locked"}
    assert len(caplog.records) == 2


def test_a_job_that_fails_again_after_a_success_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    troubles = JobTroubles()
    for _ in range(2):
        troubles.note("trim", StoreUnavailableError("the disk is full"))
        troubles.end("trim")
    assert troubles.present == {}
    assert len(caplog.records) == 2


def test_the_log_tells_once_that_a_job_succeeds_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    troubles = JobTroubles()
    troubles.end("trim")
    assert caplog.records == []
    troubles.note("trim", StoreUnavailableError("the disk is full"))
    for _ in range(2):
        troubles.end("trim")
        assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"]
