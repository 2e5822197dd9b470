"""Send several statements to PostgreSQL in one message, because the round trip is most of a small statement's cost.

`exchange` uses libpq's pipeline with prepared statements, on the driver's connection and in its transaction. The
sections of this module are: the two entry points, prepared statements, messages, answers and errors.
"""

import re
import select
import selectors
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final, NamedTuple, cast
from weakref import ref

from sqlalchemy import Connection, exc

from queues.database.postgresql.binary_copy import binary_array

#: A statement with the driver's named parameters (`%(name)s`), which is a constant of its module; and the values.
Request = tuple[str, Mapping[str, object]]

# Constants of libpq, copied because libpq's module exists only if the driver is installed.
_IDLE: Final = 0
_DONE: Final = (1, 2)  # COMMAND_OK, TUPLES_OK
_SYNCED: Final = 10  # PIPELINE_SYNC
_SQLSTATE: Final = ord("C")
_UNKNOWN_STATEMENT: Final = b"26000"
# Formats of values. PostgreSQL converts a text value to the type that the statement needs at its place.
_TEXT: Final = 0
_BINARY: Final = 1

_BEGIN: Final[Request] = ("BEGIN", {})
_COMMIT: Final[Request] = ("COMMIT", {})
# Two commits: the first is visible at once, and the second waits for the disk and for synchronous standbys. The log of
# the database is written in order, so the second commit covers the first one. A commit without changes waits for
# nothing, so the second one writes an empty message.
_VISIBLE: Final[Request] = ("SELECT set_config('synchronous_commit', 'off', true)", {})
_DURABLE: Final[Request] = (
    "SELECT set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'lrq', '')",
    {},
)
_PARAMETER: Final = re.compile(r"%\((\w+)\)s")


class Array(NamedTuple):
    """An array of values of the PostgreSQL type `kind`."""

    kind: str
    values: Sequence[object]


class Answer(NamedTuple):
    """The rows returned by a statement, and the number of rows returned or changed."""

    rows: Sequence[tuple[Any, ...]]
    size: int


def exchange(connection: Connection, requests: Sequence[Request], *, last: bool = False) -> list[Answer]:
    """Carry out *requests* one after the other; return the answer to each.

    The first failed request ends the run and raises SQLAlchemy's usual error. Values are numbers, texts, bytes, None,
    `Array` and lists of numbers. One message carries all requests if the transaction began with `exchange`. *last*: no
    statement follows in the transaction, so the message may commit it. The caller commits in any case. If one message
    carries the whole transaction, others see it before it is durable; it is durable on return.
    """
    driver = cast("Any", connection.connection.dbapi_connection)
    with usual_errors(connection):
        if connection.dialect.is_async or not _is_plain(driver) or not connection.in_transaction():
            return _one_by_one(connection, requests)
        known: _Known = connection.info.setdefault("lrq_prepared", _Known())
        transaction = connection.get_transaction()
        if driver.pgconn.transaction_status == _IDLE:
            known.seen_in = ref(transaction)
            return _whole(connection, known, requests) if last else _begin(connection, known, requests)
        sent = [*requests, _COMMIT] if last else requests
        if known.seen_in is None or known.seen_in() is not transaction:
            return _one_by_one(connection, requests)
        return _answers(connection, _ask(driver, known.prepared(connection, sent)))[: len(requests)]


def ask_alone(connection: Connection, asked: Request, meanwhile: Callable[[], None] | None = None) -> Answer:
    """Carry out *asked* as a separate transaction, on a *connection* in autocommit without other users.

    Call *meanwhile* while the database works. An error of that call closes the driver's connection.
    """
    driver = cast("Any", connection.connection.dbapi_connection)
    with usual_errors(connection):
        known: _Known = connection.info.setdefault("lrq_prepared", _Known())
        (prepared,) = known.prepared(connection, [asked])
        if meanwhile is None:
            result = driver.pgconn.exec_prepared(prepared.name, prepared.values, prepared.formats, _BINARY)
        else:
            try:
                result = _answered_while(driver.pgconn, prepared, meanwhile)
            except BaseException:
                # Otherwise the next statement would receive the answer to this one.
                driver.close()
                raise
        return _answers(connection, [result])[0]


def commit_each(connection: Connection, requests: Sequence[Request]) -> list[Answer]:
    """Carry out each of *requests* as a separate transaction, all in one message; return the answers.

    The *connection* is in autocommit, without other users. After the first failed request none is carried out, and the
    connection must be closed. Raises SQLAlchemy's usual error, and then the earlier requests are committed.
    """
    return ask_together(connection, [part for asked in requests for part in (_BEGIN, asked, _COMMIT)])[1::3]


def ask_together(connection: Connection, requests: Sequence[Request]) -> list[Answer]:
    """Carry out *requests* in one message; they may begin and end transactions. Otherwise like `commit_each`."""
    driver = cast("Any", connection.connection.dbapi_connection)
    with usual_errors(connection):
        known: _Known = connection.info.setdefault("lrq_prepared", _Known())
        return _answers(connection, _ask(driver, known.prepared(connection, requests)))


def forget_prepared(connection: Connection) -> None:
    """Prepare all statements of a connection anew at their next use."""
    connection.info.pop("lrq_prepared", None)


def _is_plain(driver: Any) -> bool:  # noqa: ANN401 - a driver's
    """Tell whether a connection begins transactions with a plain BEGIN and may prepare statements."""
    # Without a threshold the driver prepares nothing, for example behind a pooler without prepared statements.
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
    """Begin the transaction with the oldest of the prepared statements that follow it.

    After some errors the driver drops all prepared statements of a connection. So if the oldest exists, all exist.
    """
    driver = cast("Any", connection.connection.dbapi_connection)
    sent = [_beginning(driver) or _BEGIN, *requests]
    known.choose(sent[0][0])
    results = _ask(driver, known.prepared(connection, sent))
    if _is_unknown(results[0]):
        known.statements.clear()
        results = _ask(driver, known.prepared(connection, sent))
    return _answers(connection, results)[1:]


def _whole(connection: Connection, known: "_Known", requests: Sequence[Request]) -> list[Answer]:
    """Carry out a whole transaction, whose changes are visible first and then durable.

    PostgreSQL itself begins the transaction, and commits it at the end of the group. A BEGIN is needed only for another
    isolation level than the database's.
    """
    driver = cast("Any", connection.connection.dbapi_connection)
    # After a use with another level, SQLAlchemy sets the connection back to the database's level, but explicitly.
    begin = _beginning(driver, needless=connection.dialect.default_isolation_level)
    visible = [*requests, _VISIBLE] if begin is None else [begin, *requests, _VISIBLE, _COMMIT]
    results = _ask(driver, known.prepared(connection, visible), known.prepared(connection, [_DURABLE]))
    if any(map(_is_unknown, results[:-1])):
        # Nothing is stored yet.
        known.statements.clear()
        results = _ask(driver, known.prepared(connection, visible), known.prepared(connection, [_DURABLE]))
    elif _is_unknown(results[-1]):
        known.statements.clear()
        results[-1:] = _ask(driver, known.prepared(connection, [_DURABLE]))
    first = 0 if begin is None else 1
    return _answers(connection, results)[first : first + len(requests)]


def _beginning(driver: Any, *, needless: str | None = None) -> Request | None:  # noqa: ANN401 - a driver's
    """Return the statement that begins a transaction at the isolation level of the connection.

    Return None without a level, and for the level *needless*.
    """
    level = None if driver.isolation_level is None else driver.isolation_level.name.replace("_", " ")
    return None if level in (None, needless) else (f"BEGIN ISOLATION LEVEL {level}", {})


def _is_unknown(result: Any) -> bool:  # noqa: ANN401 - a driver's
    return bool(result.error_field(_SQLSTATE) == _UNKNOWN_STATEMENT)


# --- prepared statements ----------------------------------------------------------------------------------------------


class _Prepared(NamedTuple):
    """The name of a prepared statement, and its values, each in the text or the binary format."""

    name: bytes
    values: Sequence[bytes | None]
    formats: Sequence[int]


class _Known:
    """The prepared statements of a connection, and the last transaction that began with `exchange`."""

    def __init__(self) -> None:
        self.statements: dict[str, tuple[bytes, Sequence[str]]] = {}
        self.seen_in: ref[object] | None = None
        self._after: dict[str, dict[str, tuple[bytes, Sequence[str]]]] = {}

    def choose(self, beginning: str) -> None:
        """Go on with the statements that were prepared after *beginning*: each isolation level has its own."""
        self.statements = self._after.setdefault(beginning, {})

    def prepared(self, connection: Connection, requests: Sequence[Request]) -> list[_Prepared]:
        """Prepare each statement of *requests* once per connection; return them with their values."""
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
    """Replace the named parameters by `$1`, `$2`, ...; return the statement and the names. Pure."""
    names = list(dict.fromkeys(_PARAMETER.findall(statement)))
    numbered = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
    return numbered.replace("%%", "%").encode(), names


def _prepared(name: bytes, parameters: Sequence[str], values: Mapping[str, object]) -> _Prepared:
    given = [values[parameter] for parameter in parameters]
    formats = [_BINARY if isinstance(value, bytes | Array) else _TEXT for value in given]
    return _Prepared(name, [_written(value) for value in given], formats)


def _plainly(value: object) -> object:
    return list(value.values) if isinstance(value, Array) else value


def _written(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, Array):
        return binary_array(value.kind, value.values)
    return (f"{{{','.join(map(str, value))}}}" if isinstance(value, list) else str(value)).encode()


# --- messages ---------------------------------------------------------------------------------------------------------


def _ask(driver: Any, *groups: Sequence[_Prepared]) -> list[Any]:  # noqa: ANN401 - a driver's
    try:
        return _send(driver.pgconn, groups)
    except BaseException:
        # Otherwise the next statements would receive the answers to these ones.
        driver.close()
        raise


def _send(wire: Any, groups: Sequence[Sequence[_Prepared]]) -> list[Any]:  # noqa: ANN401 - a driver's
    """Send statements on libpq's connection *wire*; return libpq's results, in the binary format.

    After a failed statement, PostgreSQL skips the rest of its group. Without a BEGIN, each group is a transaction.
    """
    wire.enter_pipeline_mode()
    for group in groups:
        for name, values, formats in group:
            wire.send_query_prepared(name, values, formats, _BINARY)
        wire.pipeline_sync()
    results = []
    for _ in groups:
        # A None follows each result, and the answer to the sync follows all results of a group.
        while (result := _next(wire)) is None or result.status != _SYNCED:
            if result is not None:
                results.append(result)
    wire.exit_pipeline_mode()
    return results


def _answered_while(wire: Any, asked: _Prepared, meanwhile: Callable[[], None]) -> Any:  # noqa: ANN401 - a driver's
    """Send one statement, call *meanwhile*, and return libpq's result."""
    wire.send_query_prepared(asked.name, asked.values, asked.formats, _BINARY)
    # A statement that does not leave at once leaves later: then `meanwhile` only comes earlier.
    wire.flush()
    meanwhile()
    result = _next(wire)
    while _next(wire) is not None:
        pass
    return result


def _next(wire: Any) -> Any:  # noqa: ANN401 - a driver's
    """Wait for the next result without blocking other threads."""
    while wire.flush():
        # The server may stop receiving until its answers are read.
        _wait(wire.socket, EVENT_READ | EVENT_WRITE)
        wire.consume_input()
    while wire.is_busy():
        _wait(wire.socket, EVENT_READ)
        wire.consume_input()
    return wire.get_result()


def _wait(socket: int, events: int) -> None:
    if events == EVENT_READ and hasattr(select, "poll"):
        # For one socket, poll is the fastest means, and a selector around it doubles the cost.
        waiting = select.poll()
        waiting.register(socket, select.POLLIN)
        waiting.poll()
        return
    with selectors.DefaultSelector() as selector:
        selector.register(socket, events)
        selector.select()


# --- answers and errors -----------------------------------------------------------------------------------------------


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
        # The error comes from libpq, not from the server: the connection is lost.
        return cast("Exception", module.OperationalError(result.error_message.decode(encoding, "replace")))
    return cast("Exception", module.errors.error_from_result(result, encoding))


@contextmanager
def usual_errors(connection: Connection) -> Iterator[None]:
    """Raise SQLAlchemy's errors from code that uses the driver directly."""
    driver = connection.dialect.loaded_dbapi.Error
    try:
        yield
    except driver as error:
        raise exc.DBAPIError.instance(None, None, error, driver, dialect=connection.dialect) from error
