"""The reason of work that fails again and again."""

import logging

import pytest

from lr_server.present_trouble import PresentTrouble
from queues.errors import StoreUnavailableError
from queues.logs import logger


@pytest.fixture
def trouble() -> PresentTrouble:
    return PresentTrouble(logger("lrq.test"), "the work waits", "the work goes on")


def test_a_reason_is_logged_once_while_it_lasts(trouble: PresentTrouble, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        trouble.note(StoreUnavailableError("the disk is full"))
    assert trouble.reason == "the disk is full"
    assert len(caplog.records) == 1


def test_the_same_reason_is_logged_again_after_a_success(
    trouble: PresentTrouble, caplog: pytest.LogCaptureFixture
) -> None:
    trouble.note(StoreUnavailableError("the disk is full"))
    trouble.end()
    assert trouble.reason == ""
    trouble.note(StoreUnavailableError("the disk is full"))
    assert len(caplog.records) == 2


def test_the_log_tells_once_that_the_work_succeeds_again(
    trouble: PresentTrouble, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    trouble.end()
    trouble.note(StoreUnavailableError("the disk is full"))
    for _ in range(2):
        trouble.end()
    assert [(each.levelname, "the work goes on" in each.getMessage()) for each in caplog.records][1:] == [
        ("INFO", True)
    ]


def test_only_a_bug_is_logged_with_its_traceback(trouble: PresentTrouble, caplog: pytest.LogCaptureFixture) -> None:
    trouble.note(StoreUnavailableError("the disk is full"))
    trouble.note(KeyError("row"))
    assert ["exception" in record.lrq_fields for record in caplog.records] == [False, True]
