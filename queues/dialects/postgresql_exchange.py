"""Several statements in one message to PostgreSQL: what a small one costs is the way there and back, and the driver.

Past the driver's cursors, but on its connection and in its transaction: libpq's pipeline, with prepared statements.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Final, NamedTuple, cast
from weakref import ref

from sqlalchemy import Connection

from queues.dialects.binary_copy import binary_array
from queues.dialects.postgresql_errors import usual_errors
from queues.dialects.postgresql_pipeline import BINARY, TEXT, Prepared, ask

#: A statement with named parameters as the driver takes it (`%(name)s`), a constant of its module; and their values.
Request = tuple[str, Mapping[str, object]]

_COMMIT: Final[Request] = ("COMMIT", {})
_PARAMETER: Final = re.compile(r"%\((\w+)\)s")


class Array(NamedTuple):
    """A value that is an array of the PostgreSQL type *kind*."""

    kind: str
    values: Sequence[object]


class Answer(NamedTuple):
    """What a statement has returned, and how many rows it returned or changed."""

    rows: Sequence[tuple[Any, ...]]
    size: int


def exchange(connection: Connection, requests: Sequence[Request], *, last: bool = False) -> list[Answer]:
    """Carry out *requests* one after the other, each as a statement of its own; return what each has answered.

    After one that failed none is carried out, and its error is raised like that of any other statement. Values are
    numbers, texts, bytes, None, `Array` and lists of numbers. One message does for all, if they are the first of their
    transaction or others that went this way were. When they are its *last* they are committed with it; the caller's
    own commit is left to do that where it is not one message.
    """
    driver = cast("Any", connection.connection.dbapi_connection)
    with usual_errors(connection):
        if connection.dialect.is_async or not _is_plain(driver) or not connection.in_transaction():
            return _one_by_one(connection, requests)
        known: _Known = connection.info.setdefault("lrq_prepared", _Known())
        transaction = connection.get_transaction()
        sent = [*requests, _COMMIT] if last else requests
        if driver.pgconn.transaction_status == _IDLE:
            known.seen_in = ref(transaction)
            return _begin(connection, known, sent)[: len(requests)]
        if known.seen_in is None or known.seen_in() is not transaction:
            return _one_by_one(connection, requests)
        return _answers(connection, _ask(driver, known.prepared(connection, sent)))[: len(requests)]


def ask_alone(connection: Connection, asked: Request) -> Answer:
    """Carry out *asked* as a transaction of its own, on a *connection* in autocommit that nothing else uses."""
    driver = cast("Any", connection.connection.dbapi_connection)
    with usual_errors(connection):
        known: _Known = connection.info.setdefault("lrq_prepared", _Known())
        (prepared,) = known.prepared(connection, [asked])
        result = driver.pgconn.exec_prepared(prepared.name, prepared.values, prepared.formats, BINARY)
        return _answers(connection, [result])[0]


def _is_plain(driver: Any) -> bool:  # noqa: ANN401 - a driver's
    """Tell whether transactions of a connection begin with BEGIN, and it may prepare statements."""
    # Where there is no limit for that, a pooler in between knows no prepared statements.
    prepares = driver.prepare_threshold is not None
    is_usual = not driver.autocommit and driver.read_only is None and driver.deferrable is None
    return prepares and is_usual and not driver.pgconn.pipeline_status


def _one_by_one(connection: Connection, requests: Sequence[Request]) -> list[Answer]:
    answers = []
    for statement, values in requests:
        given = {name: _plainly(value) for name, value in values.items()}
        if connection.dialect.is_async:
            result = connection.exec_driver_sql(statement, given)
            answers.append(Answer([tuple(row) for row in result] if result.returns_rows else (), result.rowcount))
            continue
        with cast("Any", connection.connection.cursor(binary=True)) as cursor:
            cursor.execute(statement, given)
            answers.append(Answer(cursor.fetchall() if cursor.description else (), cursor.rowcount))
    return answers


def _begin(connection: Connection, known: "_Known", requests: Sequence[Request]) -> list[Answer]:
    """Begin the transaction with a prepared statement, the oldest one.

    The driver forgets all prepared statements of a connection after some errors: while the oldest is there, all are.
    """
    driver = cast("Any", connection.connection.dbapi_connection)
    level = driver.isolation_level
    first: list[Request] = [("BEGIN", {})]
    if level is not None:
        first.append((f"SET TRANSACTION ISOLATION LEVEL {level.name.replace('_', ' ')}", {}))
    results = _ask(driver, known.prepared(connection, [*first, *requests]))
    if results[0].error_field(_SQLSTATE) == _UNKNOWN_STATEMENT:
        known.statements.clear()
        results = _ask(driver, known.prepared(connection, [*first, *requests]))
    return _answers(connection, results)[len(first) :]


class _Known:
    """The prepared statements of a connection, and the transaction in which they have been seen to be there."""

    def __init__(self) -> None:
        self.statements: dict[str, tuple[bytes, Sequence[str]]] = {}
        self.seen_in: ref[object] | None = None

    def prepared(self, connection: Connection, requests: Sequence[Request]) -> list[Prepared]:
        """Prepare what has not been yet."""
        for statement in dict(requests):
            if statement not in self.statements:
                text, parameters = _numbered(statement)
                name = b"lrq_%d" % next(_numbers)
                wire = cast("Any", connection.connection.dbapi_connection).pgconn
                _answers(connection, [wire.prepare(name, text)])
                self.statements[statement] = name, parameters
        return [_prepared(*self.statements[statement], values) for statement, values in requests]


_numbers = count()


@lru_cache(maxsize=256)
def _numbered(statement: str) -> tuple[bytes, Sequence[str]]:
    """Return a statement with `$1` in the place of its first parameter, and the names of all. Pure."""
    names = list(dict.fromkeys(_PARAMETER.findall(statement)))
    numbered = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
    return numbered.replace("%%", "%").encode(), names


def _ask(driver: Any, statements: Sequence[Prepared]) -> list[Any]:  # noqa: ANN401 - a driver's
    try:
        return ask(driver.pgconn, statements)
    except BaseException:
        # What was asked is under way, and nobody will read what comes of it.
        driver.close()
        raise


def _prepared(name: bytes, parameters: Sequence[str], values: Mapping[str, object]) -> Prepared:
    given = [values[parameter] for parameter in parameters]
    formats = [BINARY if isinstance(value, bytes | Array) else TEXT for value in given]
    return Prepared(name, [_written(value) for value in given], formats)


def _plainly(value: object) -> object:
    return list(value.values) if isinstance(value, Array) else value


def _written(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, Array):
        return binary_array(value.kind, value.values)
    return (f"{{{','.join(map(str, value))}}}" if isinstance(value, list) else str(value)).encode()


def _answers(connection: Connection, results: Sequence[Any]) -> list[Answer]:
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
        # It comes from libpq, not from the server: the connection is lost.
        return cast("Exception", module.OperationalError(result.error_message.decode(encoding, "replace")))
    return cast("Exception", module.errors.error_from_result(result, encoding))


# Of libpq, whose module is there only with the driver.
_IDLE: Final = 0
_DONE: Final = (1, 2)  # COMMAND_OK, TUPLES_OK
_SQLSTATE: Final = ord("C")
_UNKNOWN_STATEMENT: Final = b"26000"
