"""Events with fields, through the standard `logging`."""

import logging

import pytest
from sqlalchemy import exc

from queues.logs import FIELDS, logger


@pytest.fixture
def caught(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "lrq.example")
    return caplog


def test_an_event_is_a_text_and_fields(caught: pytest.LogCaptureFixture):
    logger("lrq.example").info("negotiated", decision="Resume", seq=7)
    (record,) = caught.records
    assert record.getMessage() == "event='negotiated' decision='Resume' seq=7"
    assert getattr(record, FIELDS) == {"event": "negotiated", "decision": "Resume", "seq": 7}
    assert (record.levelname, record.name, record.funcName) == (
        "INFO",
        "lrq.example",
        "test_an_event_is_a_text_and_fields",
    )


def test_bound_fields_come_with_each_event(caught: pytest.LogCaptureFixture):
    bound = logger("lrq.example").bind(client="policy")
    bound.warning("one")
    bound.bind(destination="tokyo").error("two", tries=3)
    assert [record.getMessage() for record in caught.records] == [
        "event='one' client='policy'",
        "event='two' client='policy' destination='tokyo' tries=3",
    ]


@pytest.mark.parametrize("level", ["warning", "exception"])
def test_the_traceback_is_a_field(level: str, caught: pytest.LogCaptureFixture):
    log = logger("lrq.example")
    try:
        raise ValueError("no such site")
    except ValueError:
        log.warning("failed", exc_info=True) if level == "warning" else log.exception("failed")
    (record,) = caught.records
    assert getattr(record, FIELDS)["exception"].splitlines()[-1] == "ValueError: no such site"
    assert record.exc_info is None


def test_a_field_is_cut_and_has_only_characters_that_every_handler_can_write(caught: pytest.LogCaptureFixture):
    logger("lrq.example").warning("refused", reason="a\0\ud800" + "x" * 3_500_000)
    shown = getattr(caught.records[0], FIELDS)["reason"]
    assert shown.startswith("a��x")
    assert len(shown) == 2_000


def test_a_traceback_shows_no_parameters_of_a_statement(caught: pytest.LogCaptureFixture):
    refused = exc.IntegrityError("INSERT INTO rules VALUES (?)", {"payload": b"secret"}, ValueError("taken"))
    logger("lrq.example").warning("failed", exc_info=refused)
    shown = getattr(caught.records[0], FIELDS)["exception"]
    assert shown.splitlines()[-1] == "ValueError: taken"
    assert "secret" not in caught.text


def test_an_event_below_the_level_of_its_logger_is_not_made(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING, "lrq.example")

    class Costly:
        def __repr__(self) -> str:
            raise AssertionError("an event that is not written must cost nothing")

    logger("lrq.example").info("seen by no handler", value=Costly())
    assert caplog.records == []
