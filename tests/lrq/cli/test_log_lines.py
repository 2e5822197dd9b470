"""The lines of the log on stderr."""

import json
import logging
from collections.abc import Iterator

import pytest
from sqlalchemy import exc

from lrq.cli.logs import log_to_stderr


@pytest.fixture
def restored() -> Iterator[None]:
    """Give the loggers their handlers and levels back after the test."""
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for package in ("lrq", "lr_client", "lr_server"):
        logging.getLogger(package).setLevel(logging.NOTSET)


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("as_json", [True, False])
def test_an_error_that_another_library_logs_has_no_values_of_a_statement(
    as_json: bool, capsys: pytest.CaptureFixture[str]
):
    log_to_stderr("debug", as_json=as_json)
    values = {"payload": b"a secret"}
    try:
        raise exc.IntegrityError("INSERT INTO rules VALUES (?)", values, ValueError("taken"))
    except exc.IntegrityError:
        logging.getLogger("apscheduler").exception("a job has failed")
    logged = capsys.readouterr().err
    assert "a job has failed" in logged
    assert "ValueError: taken" in logged
    assert "a secret" not in logged
    assert not as_json or json.loads(logged)["exception"].startswith("Traceback")
