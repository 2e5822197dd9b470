"""Statements on SQLite's driver itself, because SQLAlchemy's own work takes most of a small statement's time.

The driver is sqlite3, or SQLAlchemy's adapter of aiosqlite. Events of SQLAlchemy do not see these statements.
"""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from sqlalchemy import Connection

from queues.database.driver_errors import usual_errors

Row = tuple[object, ...]


def ensure_begun(connection: Connection) -> None:
    """Begin a transaction as SQLAlchemy does with the first statement, unless one is in progress."""
    if not connection.in_transaction():
        connection.begin()


def run(connection: Connection, statement: str, values: Row) -> list[tuple[Any, ...]]:
    """Carry out *statement* in the transaction in progress; return its rows, if it has any."""
    driver: Any = connection.connection
    with usual_errors(connection), closing(driver.cursor()) as cursor:
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def run_each(connection: Connection, statement: str, rows: Sequence[Row]) -> None:
    """Carry out *statement* for each of *rows*, in the transaction in progress."""
    driver: Any = connection.connection
    with usual_errors(connection), closing(driver.cursor()) as cursor:
        cursor.executemany(statement, rows)
