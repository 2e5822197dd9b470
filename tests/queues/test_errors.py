"""The tree of errors, and the errors of lrq for errors of database drivers."""

import ast
import inspect
import re
import sqlite3
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import exc

from queues import errors
from queues.database.transactions import map_error
from queues.errors import first_line

ROOT = Path(__file__).parents[2]
#: The packages that an application imports; the demonstration in `lrq` has its own error.
SOURCES = [
    path
    for package in ("queues", "discovery", "sink", "lr_server", "lr_client")
    for path in (ROOT / package).rglob("*.py")
    if path != ROOT / "queues" / "errors.py"
]
CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]


def drawn_tree() -> dict[str, str]:
    """Return the parent of each class, as drawn in the docstring of `queues.errors`."""
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        node = re.match(r"    ( *)[*x+] (\w+)", line)
        if node:
            depth = len(node[1]) // 2
            above[depth:] = [node[2]]
            parents[node[2]] = above[depth - 1] if depth else "Exception"
    return parents


def test_the_drawn_tree_shows_each_error_under_its_parent():
    assert drawn_tree() == {kind.__name__: kind.__bases__[0].__name__ for kind in CLASSES}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_has_a_docstring_and_is_an_error_of_lrq(kind: type[errors.LrqError]):
    assert kind.__doc__
    assert issubclass(kind, errors.LrqError)


@pytest.mark.parametrize(
    ("kind", "familiar"),
    [
        (errors.InvalidNameError, ValueError),
        (errors.InvalidPositionError, ValueError),
        (errors.PayloadTooLargeError, ValueError),
        (errors.PayloadTypeError, TypeError),
        (errors.InvalidKeyError, ValueError),
        (errors.DestinationsError, ValueError),
        (errors.WaitTimeoutError, TimeoutError),
        (errors.PackageClashError, ImportError),
    ],
)
def test_an_error_is_caught_by_the_familiar_built_in_class(kind: type[Exception], familiar: type[Exception]):
    assert issubclass(kind, familiar)


def test_the_tree_holds_every_error_of_the_packages():
    known = {kind.__name__ for kind in CLASSES}
    outside = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and known & {ast.unparse(base) for base in node.bases}
    ]
    assert outside == []


def test_every_error_is_raised_or_has_errors_below_it():
    text = "\n".join(path.read_text() for path in (*SOURCES, ROOT / "lrq_packages.py"))
    parents = set(drawn_tree().values())
    unused = [kind.__name__ for kind in CLASSES if not re.search(rf'\b{kind.__name__}\(|"{kind.__name__}"', text)]
    assert [name for name in unused if name not in parents] == []


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
def test_psycopg_errors_are_transient_if_a_later_try_can_succeed(state: str):
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
def test_sqlite_errors_of_a_statement_are_not_mapped(name: str):
    assert map_error(driver_error(sqlite_error(name))) is None


def test_a_lost_connection_is_transient_though_it_has_no_code():
    lost = driver_error(psycopg.OperationalError("server closed the connection unexpectedly"), exc.OperationalError)
    assert isinstance(map_error(lost), errors.StoreUnavailableError)


@pytest.mark.parametrize(
    "cause",
    [
        sqlite3.OperationalError("no such table: lrq_site"),
        psycopg.errors.UndefinedTable('relation "lrq_site" does not exist\nLINE 1: SELECT 1'),
        psycopg.errors.UndefinedTable("Relation »lrq_site« existiert nicht"),
        psycopg.errors.UndefinedColumn('column "request" of relation "lrq_log_entries" does not exist'),
    ],
)
def test_the_error_for_missing_tables_names_the_command_to_run(cause: Exception):
    mapped = map_error(driver_error(cause))
    assert isinstance(mapped, errors.NotInitializedError)
    assert "run `lrq init`" in str(mapped)
    assert "\n" not in str(mapped)


def test_the_error_for_a_missing_table_of_the_application_is_not_mapped():
    assert map_error(driver_error(sqlite3.OperationalError("no such table: airports"))) is None
    assert map_error(driver_error(psycopg.errors.UndefinedTable('relation "airports" does not exist'))) is None


def test_a_locked_table_of_lrq_is_not_a_missing_one():
    locked = psycopg.errors.LockNotAvailable('could not obtain lock on relation "lrq_log_entries_3"')
    assert isinstance(map_error(driver_error(locked)), errors.StoreUnavailableError)


@pytest.mark.parametrize(
    ("error", "line"),
    [(ValueError("one\ntwo"), "one"), (" one \n", "one"), (ValueError(), ""), ("\r\none\r\ntwo", "one")],
)
def test_the_first_line_of_an_error_is_stripped(error: object, line: str):
    assert first_line(error) == line
