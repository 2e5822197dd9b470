"""Answers of PostgreSQL to statements on libpq's connection."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast

from sqlalchemy import Connection

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


@contextmanager
def executed(connection: Connection, statement: str, values: Mapping[str, object] | Sequence[object]) -> Iterator[Any]:
    """Execute *statement* on a cursor of the driver's own kind, with tuples in the binary format; give the cursor.

    The application may have chosen another kind for its connections, which reads no binary rows: `ClientCursor`.
    """
    module, driver = cast("Any", connection.dialect.loaded_dbapi), connection.connection.dbapi_connection
    with module.Cursor(driver, row_factory=module.rows.tuple_row) as cursor:
        cursor.format = module.pq.Format.BINARY
        cursor.execute(statement, values, prepare=None if prepares(connection) else False)
        yield cursor


def prepares(connection: Connection) -> bool:
    """Tell whether the application lets its driver prepare statements.

    Not without a threshold, and not with client-side cursors: for example behind a pooler without prepared statements.
    """
    module, driver = cast("Any", connection.dialect.loaded_dbapi), cast("Any", connection.connection.dbapi_connection)
    kind = driver.cursor_factory
    is_client_side = isinstance(kind, type) and issubclass(kind, module.ClientCursor)
    return driver.prepare_threshold is not None and not is_client_side
