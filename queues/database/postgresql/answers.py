"""Answers of PostgreSQL to statements on libpq's connection, and errors as SQLAlchemy raises them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast

from sqlalchemy import Connection, exc

# Constants of libpq, copied because libpq's module exists only if the driver is installed.
_DONE: Final = (1, 2)  # COMMAND_OK, TUPLES_OK
_SQLSTATE: Final = ord("C")
_UNKNOWN_STATEMENT: Final = b"26000"


class Answer(NamedTuple):
    """The rows returned by a statement, and the number of rows returned or changed."""

    rows: Sequence[tuple[Any, ...]]
    size: int


def read_answers(connection: Connection, results: Sequence[Any]) -> list[Answer]:
    """Convert libpq's *results*; raise the driver's error for the first failed one."""
    driver, module = cast("Any", connection.connection.dbapi_connection), cast("Any", connection.dialect.loaded_dbapi)
    answers = []
    for result in results:
        if result.status not in _DONE:
            raise _error(module, result, driver.info.encoding)
        reader = module.adapt.Transformer.from_context(driver)
        reader.set_pgresult(result)
        rows = reader.load_rows(0, result.ntuples, tuple) if result.nfields else ()
        answers.append(Answer(rows, result.ntuples if result.nfields else result.command_tuples or 0))
    return answers


def _error(module: Any, result: Any, encoding: str) -> Exception:  # noqa: ANN401 - a driver's
    if result.error_field(_SQLSTATE) is None:
        # The error comes from libpq, not from the server: the connection is lost.
        return cast("Exception", module.OperationalError(result.error_message.decode(encoding, "replace")))
    return cast("Exception", module.errors.error_from_result(result, encoding))


def is_unknown_statement(result: Any) -> bool:  # noqa: ANN401 - a driver's
    """Tell whether a statement failed because the connection has not prepared it."""
    return bool(result.error_field(_SQLSTATE) == _UNKNOWN_STATEMENT)


def own_cursor(connection: Connection) -> Any:  # noqa: ANN401 - a driver's
    """Open a cursor of the driver's own kind, with tuples in the binary format.

    The application may have chosen another kind for its connections, which reads no binary rows: `ClientCursor`.
    """
    module = cast("Any", connection.dialect.loaded_dbapi)
    cursor = module.Cursor(connection.connection.dbapi_connection, row_factory=module.rows.tuple_row)
    cursor.format = module.pq.Format.BINARY
    return cursor


@contextmanager
def usual_errors(connection: Connection) -> Iterator[None]:
    """Raise SQLAlchemy's errors from code that uses the driver directly."""
    driver = connection.dialect.loaded_dbapi.Error
    try:
        yield
    except driver as error:
        raise exc.DBAPIError.instance(None, None, error, driver, dialect=connection.dialect) from error
