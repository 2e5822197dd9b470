"""Rows that a trigger or rule of others leaves out of a table of lrq; the database raises no error.

On PostgreSQL the statement that writes the rows counts them too: its message may carry the commit. SQL has no statement
that raises an error. Casting a text to a number fails, and PostgreSQL's message quotes the text.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import ColumnElement, Connection, Table, delete, exc, literal, select

from queues.errors import SetupError

#: PostgreSQL's code for a text that is no number.
NO_NUMBER: Final = "22P02"


def left_out(table: str) -> str:
    """Tell that rows of *table* were left out, and the cure."""
    return f"a trigger or rule that is not of lrq left rows out of {table}: drop it, or let the trigger fire AFTER"


def require_stored(table: str, stored: int, given: int) -> None:
    """Raise `SetupError` unless all *given* rows are *stored* in *table*."""
    if stored != given:
        raise SetupError(left_out(table))


def require_none(connection: Connection, table: Table, *where: ColumnElement[bool]) -> None:
    """Raise `SetupError` if a row of *table* is still *where* a change has left none."""
    if connection.execute(select(literal(1)).select_from(table).where(*where).limit(1)).first() is not None:
        raise SetupError(left_out(table.name))


def remove_all(connection: Connection, table: Table, *where: ColumnElement[bool]) -> int:
    """Delete all rows of *table* that are *where*, and return their number; raise `SetupError` if any is left."""
    removed = connection.execute(delete(table).where(*where)).rowcount
    require_none(connection, table, *where)
    return removed


def failing_unless(are_stored: str, table: str) -> str:
    """Return PostgreSQL's expression that fails unless *are_stored*, a condition of SQL; see `telling`."""
    return f"CAST(CASE WHEN {are_stored} THEN '1' ELSE '{left_out(table)}' END AS integer)"


def is_told_by(error: BaseException, table: str) -> bool:
    """Return whether *error* is of a statement that has failed by `failing_unless` for *table*."""
    cause = getattr(error, "orig", None)
    return getattr(cause, "sqlstate", None) == NO_NUMBER and left_out(table) in str(cause)


@contextmanager
def telling(table: str) -> Iterator[None]:
    """Raise `SetupError` for a statement that has failed by `failing_unless` for *table*."""
    try:
        yield
    except exc.DataError as error:
        if is_told_by(error, table):
            raise SetupError(left_out(table)) from error
        raise
