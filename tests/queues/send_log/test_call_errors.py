"""The errors of drivers at a call of `lrq_transmit` become the errors that Python's own checks raise."""

import sqlite3
from contextlib import closing

import asyncpg
import psycopg
import pytest
from django.db.utils import OperationalError as DjangoOperationalError
from psycopg.errors import lookup
from sqlalchemy import exc

from queues import errors
from queues.send_log.call_errors import call_error, own_error

STATES = {
    "LR001": errors.InvalidNameError,
    "LR002": errors.DestinationsError,
    "LR003": errors.UnknownDestinationError,
    "LR004": errors.UsageError,
    "LR005": errors.PayloadTypeError,
    "LR006": errors.InvalidKeyError,
    "LR007": errors.InvalidHeadersError,
    "LR008": errors.NotInitializedError,
    "LR012": errors.SetupError,
    "LR099": errors.UsageError,
    "08006": errors.StoreUnavailableError,
    "25006": errors.StoreUnavailableError,
    "53100": errors.StoreUnavailableError,
    "57P01": errors.StoreUnavailableError,
}


class RefusedError(Exception):
    """An error of a driver that only tells its state."""

    def __init__(self, state: str, words: str = "a sentence\nwith details") -> None:
        super().__init__(words)
        self.sqlstate = state


@pytest.mark.parametrize("state", STATES)
def test_each_state_is_one_error_with_the_first_line_of_the_database(state: str) -> None:
    found = call_error(RefusedError(state))
    assert type(found) is STATES[state]
    assert "a sentence" in str(found)
    assert "details" not in str(found)


@pytest.mark.parametrize("state", ["40001", "40P01", "25P02", "23505", "42601", "XX000"])
def test_conflicts_and_errors_of_the_code_stay_those_of_the_driver(state: str) -> None:
    assert call_error(RefusedError(state)) is None
    assert call_error(lookup(state)("a sentence")) is None


def test_a_missing_right_and_a_missing_function_name_the_command() -> None:
    denied = call_error(asyncpg.InsufficientPrivilegeError("permission denied for function lrq_transmit"))
    assert type(denied) is errors.SetupError
    assert "`lrq grant ROLE --as sender`" in str(denied)
    missing = call_error(psycopg.errors.UndefinedFunction("function lrq_transmit(text, bytea) does not exist"))
    assert type(missing) is errors.NotInitializedError
    assert "`lrq init`" in str(missing)


@pytest.mark.parametrize("words", ["permission denied for table rules", "function other() does not exist"])
def test_the_same_states_of_other_objects_stay_those_of_the_driver(words: str) -> None:
    assert call_error(RefusedError("42501", words)) is None
    assert call_error(RefusedError("42883", words)) is None


def test_an_error_without_a_code_means_a_lost_connection_if_the_driver_says_so() -> None:
    assert type(call_error(psycopg.OperationalError("the connection is lost"))) is errors.StoreUnavailableError
    assert call_error(psycopg.ProgrammingError("the cursor is closed")) is None
    assert call_error(ValueError("not of a driver")) is None


def test_the_driver_s_error_inside_those_of_django_and_sqlalchemy_decides() -> None:
    cause = RefusedError("LR003")
    wrapped = DjangoOperationalError("a sentence")
    wrapped.__cause__ = cause
    assert own_error(wrapped) is cause
    assert type(call_error(wrapped)) is errors.UnknownDestinationError
    adapted = RefusedError("LR003", "<class 'asyncpg'>: a sentence")
    adapted.__cause__ = cause
    outer = exc.DBAPIError(None, None, adapted)
    outer.__cause__ = adapted
    assert own_error(outer) is cause
    assert own_error(cause) is cause


def test_a_connection_of_sqlite_that_trusts_no_view_is_told_the_setting() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.create_function("json_valid", 1, lambda _: 1)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("CREATE VIEW entries AS SELECT json_valid('{}')")
        with pytest.raises(sqlite3.OperationalError) as raised:
            connection.execute("SELECT * FROM entries")
    found = call_error(raised.value)
    assert isinstance(found, errors.ConfigurationError)
    assert "(unsafe use of json_valid()): execute `PRAGMA trusted_schema = ON`" in str(found)
