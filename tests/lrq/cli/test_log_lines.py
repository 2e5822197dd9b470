"""The lines of the log on stderr."""

import json
import logging
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, exc, text

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


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_refused_row_among_many_is_told_by_its_error_alone(site: Engine, capsys: pytest.CaptureFixture[str]):
    log_to_stderr("debug", as_json=False)
    with site.connect() as connection:
        connection.execute(text("CREATE TABLE rules (id INTEGER CHECK (id < 2))"))
        with pytest.raises(exc.IntegrityError):
            connection.execute(text("INSERT INTO rules VALUES (:id)"), [{"id": n} for n in range(3000)])
    assert "Pipeline" not in capsys.readouterr().err


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_connection_lost_among_many_rows_is_told_by_its_error_alone(site: Engine, capsys: pytest.CaptureFixture[str]):
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE rules (id INTEGER PRIMARY KEY)"))
    log_to_stderr("debug", as_json=False)
    with site.connect() as connection:
        mine = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with site.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:mine, 10000)"), {"mine": mine})
        with pytest.raises(exc.OperationalError):
            connection.execute(text("INSERT INTO rules VALUES (:id)"), [{"id": n} for n in range(3)])
    # Threads of earlier tests may log lines of their own.
    assert "Pipeline" not in capsys.readouterr().err
    logging.getLogger("psycopg").warning("error ignored terminating %r: %s", "<psycopg.Pipeline>", "another one")
    assert "another one" in capsys.readouterr().err
