"""Statements on SQLite's driver itself, because SQLAlchemy's own work takes most of a small statement's time.

The driver is sqlite3, or SQLAlchemy's adapter of aiosqlite. Events of SQLAlchemy do not see these statements.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Boolean, CompoundSelect, Connection, Select, TextClause
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine.interfaces import Compiled

from queues.database.dialect import Executed
from queues.database.driver_errors import usual_errors

Row = tuple[object, ...]
#: Names in place of question marks, so that the values of a statement can be given by name.
_NAMED: Final = sqlite.dialect(paramstyle="named")


def ensure_begun(connection: Connection) -> None:
    """Begin a transaction as SQLAlchemy does with the first statement, unless one is in progress."""
    if not connection.in_transaction():
        connection.begin()


def run(connection: Connection, statement: str, values: Row | Mapping[str, object]) -> list[tuple[Any, ...]]:
    """Carry out *statement* in the transaction in progress; return its rows, if it has any."""
    with _executed(connection, statement, values) as cursor:
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def run_each(connection: Connection, statement: str, rows: Sequence[Row]) -> int:
    """Carry out *statement* for each of *rows*, in the transaction in progress; return the number of changed rows."""
    driver: Any = connection.connection
    with usual_errors(connection), closing(driver.cursor()) as cursor:
        cursor.executemany(statement, rows)
        return int(cursor.rowcount)


def answer(connection: Connection, statement: Executed, values: Mapping[str, object]) -> Sequence[tuple[Any, ...]]:
    """Carry out a statement of SQLAlchemy; return its rows as SQLAlchemy would, if it has any."""
    ensure_begun(connection)
    known = _known(statement, values)
    rows = run(connection, known.compiled.string, known.values(values))
    return [known.row(row) for row in rows] if known.booleans else rows


def change(connection: Connection, statement: Executed, values: Mapping[str, object]) -> int:
    """Carry out a statement of SQLAlchemy that returns no rows; return the number of changed rows."""
    ensure_begun(connection)
    known = _known(statement, values)
    with _executed(connection, known.compiled.string, known.values(values)) as cursor:
        return int(cursor.rowcount)


@contextmanager
def _executed(connection: Connection, statement: str, values: Row | Mapping[str, object]) -> Iterator[Any]:
    driver: Any = connection.connection
    with usual_errors(connection), closing(driver.cursor()) as cursor:
        cursor.execute(statement, values)
        yield cursor


class _Known(NamedTuple):
    """A statement, compiled once, and the places of its truth values, which SQLite returns as numbers."""

    compiled: Compiled
    booleans: frozenset[int]

    def values(self, given: Mapping[str, object]) -> Mapping[str, object]:
        """Return all values of the statement; those of `present_us` are made anew each time."""
        return self.compiled.construct_params(dict(given)) or {}

    def row(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            bool(value) if place in self.booleans and value is not None else value for place, value in enumerate(row)
        )


def _known(statement: Executed, values: Mapping[str, object]) -> _Known:
    # For an INSERT, the names of the values are its columns.
    return _compiled(statement, () if isinstance(statement, Select | CompoundSelect) else tuple(values))


@lru_cache(maxsize=512)
def _compiled(statement: Executed, names: tuple[str, ...]) -> _Known:
    compiled = statement.compile(dialect=_NAMED, column_keys=names or None)
    types = enumerate(_types(statement))
    return _Known(compiled, frozenset(place for place, kind in types if isinstance(kind, Boolean)))


def _types(statement: Executed) -> list[object]:
    if isinstance(statement, TextClause):
        return []
    if isinstance(statement, Select | CompoundSelect):
        return [column.type for column in statement.selected_columns]
    return [described["type"] for described in statement.returning_column_descriptions]
