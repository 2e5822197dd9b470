"""The error tree, and how driver errors get into it."""

import inspect
import re
import sqlite3

import psycopg
import pytest
from sqlalchemy import exc

from queues import errors
from queues.transactions import map_error

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]


def drawn_tree() -> dict[str, str]:
    """Return the parent of each class in the map that the module opens with."""
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        node = re.match(r"( *)[*x+] (\w+)", line)
        if node:
            depth = len(node[1]) // 2
            above[depth:] = [node[2]]
            parents[node[2]] = above[depth - 1] if depth else "Exception"
    return parents


def test_the_map_shows_the_tree_as_it_is():
    assert drawn_tree() == {kind.__name__: kind.__bases__[0].__name__ for kind in CLASSES}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_says_what_it_means(kind: type[errors.LrqError]):
    assert kind.__doc__
    assert issubclass(kind, errors.LrqError)


@pytest.mark.parametrize(
    ("kind", "familiar"),
    [
        (errors.InvalidNameError, ValueError),
        (errors.InvalidPositionError, ValueError),
        (errors.PayloadTooLargeError, ValueError),
        (errors.WaitTimeoutError, TimeoutError),
        (errors.PackageClashError, ImportError),
    ],
)
def test_what_people_catch_already_catches_it(kind: type[Exception], familiar: type[Exception]):
    assert issubclass(kind, familiar)


def driver_error(cause: Exception, kind: type[exc.DBAPIError] = exc.DBAPIError) -> exc.DBAPIError:
    return kind("SELECT 1", {}, cause)


PSYCOPG_CLASSES = {
    kind.sqlstate: kind
    for _, kind in inspect.getmembers(psycopg.errors, inspect.isclass)
    if issubclass(kind, psycopg.Error) and kind.sqlstate
}
# Connection, conflict or deadlock, resources, intervention, the system itself, lock not available, read-only.
CURABLE = ("08", "40", "53", "57", "58", "55P03", "25006", "25P03", "25P04")


@pytest.mark.parametrize("state", sorted(PSYCOPG_CLASSES))
def test_psycopg_errors_are_transient_where_a_later_try_can_help(state: str):
    mapped = map_error(driver_error(PSYCOPG_CLASSES[state]("words")))
    expected = errors.StoreUnavailableError if state.startswith(CURABLE) else type(None)
    assert type(mapped) is expected


def sqlite_error(name: str) -> sqlite3.Error:
    error = sqlite3.OperationalError("words")
    error.sqlite_errorname = name
    return error


SQLITE_NAMES = [name for name in dir(sqlite3) if name.startswith("SQLITE_") and isinstance(getattr(sqlite3, name), int)]
SQLITE_CURABLE = ("BUSY", "LOCKED", "FULL", "IOERR", "CANTOPEN", "READONLY")


@pytest.mark.parametrize(
    "name", [f"SQLITE_{name}" for name in (*SQLITE_CURABLE, "BUSY_SNAPSHOT", "IOERR_WRITE", "READONLY_DBMOVED")]
)
def test_sqlite_errors_of_the_file_are_transient(name: str):
    assert name in SQLITE_NAMES
    assert isinstance(map_error(driver_error(sqlite_error(name))), errors.StoreUnavailableError)


@pytest.mark.parametrize("name", ["SQLITE_CONSTRAINT_UNIQUE", "SQLITE_ERROR", "SQLITE_MISUSE", "SQLITE_TOOBIG"])
def test_sqlite_errors_of_the_statement_are_not_ours_to_hide(name: str):
    assert map_error(driver_error(sqlite_error(name))) is None


def test_a_lost_connection_is_transient_although_it_has_no_code():
    lost = driver_error(psycopg.OperationalError("server closed the connection unexpectedly"), exc.OperationalError)
    assert isinstance(map_error(lost), errors.StoreUnavailableError)


@pytest.mark.parametrize(
    "cause",
    [
        sqlite3.OperationalError("no such table: lrq_site"),
        psycopg.errors.UndefinedTable('relation "lrq_site" does not exist\nLINE 1: SELECT 1'),
    ],
)
def test_missing_tables_of_ours_say_what_to_run(cause: Exception):
    mapped = map_error(driver_error(cause))
    assert isinstance(mapped, errors.NotInitializedError)
    assert "run `lrq init`" in str(mapped)
    assert "\n" not in str(mapped)


def test_a_missing_table_of_the_application_is_its_own_error():
    assert map_error(driver_error(sqlite3.OperationalError("no such table: airports"))) is None
