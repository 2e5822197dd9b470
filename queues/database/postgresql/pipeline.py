"""Send several statements to PostgreSQL in one message, because the round trip is most of a small statement's cost.

`exchange` uses libpq's pipeline with prepared statements, on the driver's connection and in its transaction.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast
from weakref import ref

from sqlalchemy import Connection

from queues.database.dialect import READING
from queues.database.driver_errors import usual_errors
from queues.database.postgresql.answers import (
    Answer,
    executed,
    is_unknown_statement,
    prepares,
    read_answers,
)
from queues.database.postgresql.messages import answered_while, ask
from queues.database.postgresql.prepared_statements import BINARY, Array, KnownStatements, Request

# A constant of libpq: no transaction is open.
_IDLE: Final = 0

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


def exchange(connection: Connection, requests: Sequence[Request], *, last: bool = False) -> list[Answer]:
    """Carry out *requests* one after the other; return the answer to each.

    The first failed request ends the run and raises SQLAlchemy's usual error. Values are numbers, texts, bytes, None,
    `Array` and lists of numbers. One message carries all requests if the transaction began with `exchange`. *last*: no
    statement follows in the transaction, so the message may commit it. The caller commits in any case. If one message
    carries the whole transaction, others see it before it is durable; it is durable on return. A transaction of
    `reading` has nothing to make durable, so one message is its only one.
    """
    driver = cast("Any", connection.connection.dbapi_connection)
    with usual_errors(connection):
        if connection.dialect.is_async or not _is_plain(connection) or not connection.in_transaction():
            return _one_by_one(connection, requests)
        known = KnownStatements.of(connection)
        transaction = connection.get_transaction()
        if driver.pgconn.transaction_status == _IDLE:
            known.seen_in = ref(transaction)
            if last and connection.get_execution_options().get(READING):
                return _begin(connection, known, [*requests, _COMMIT])[: len(requests)]
            return _whole(connection, known, requests) if last else _begin(connection, known, requests)
        sent = [*requests, _COMMIT] if last else requests
        if known.seen_in is None or known.seen_in() is not transaction:
            return _one_by_one(connection, requests)
        return read_answers(connection, ask(driver, known.prepared(connection, sent)))[: len(requests)]


def ask_alone(connection: Connection, asked: Request, meanwhile: Callable[[], None] | None = None) -> Answer:
    """Carry out *asked* as a separate transaction, on a *connection* in autocommit without other users.

    Call *meanwhile* while the database works. An error of that call closes the driver's connection.
    """
    driver = cast("Any", connection.connection.dbapi_connection)
    with usual_errors(connection):
        known = KnownStatements.of(connection)
        (prepared,) = known.prepared(connection, [asked])
        if meanwhile is None:
            result = driver.pgconn.exec_prepared(prepared.name, prepared.values, prepared.formats, BINARY)
        else:
            result = answered_while(driver, prepared, meanwhile)
        return read_answers(connection, [result])[0]


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
        known = KnownStatements.of(connection)
        return read_answers(connection, ask(driver, known.prepared(connection, requests)))


def _is_plain(connection: Connection) -> bool:
    """Tell whether a connection begins transactions with a plain BEGIN and may prepare statements."""
    driver = cast("Any", connection.connection.dbapi_connection)
    is_usual = not driver.autocommit and driver.read_only is None and driver.deferrable is None
    return prepares(connection) and is_usual and not driver.pgconn.pipeline_status


def _one_by_one(connection: Connection, requests: Sequence[Request]) -> list[Answer]:
    answers = []
    for statement, values in requests:
        given = {name: _plainly(value) for name, value in values.items()}
        if connection.dialect.is_async:
            result = connection.exec_driver_sql(statement, given)
            answers.append(Answer([tuple(row) for row in result] if result.returns_rows else (), result.rowcount))
            continue
        with executed(connection, statement, given) as cursor:
            answers.append(Answer(cursor.fetchall() if cursor.description else (), cursor.rowcount))
    return answers


def _begin(connection: Connection, known: KnownStatements, requests: Sequence[Request]) -> list[Answer]:
    """Begin the transaction with the oldest of the prepared statements that follow it.

    After some errors the driver drops all prepared statements of a connection. So if the oldest exists, all exist.
    """
    driver = cast("Any", connection.connection.dbapi_connection)
    sent = [_beginning(driver) or _BEGIN, *requests]
    known.choose(sent[0][0])
    results = ask(driver, known.prepared(connection, sent))
    if is_unknown_statement(results[0]):
        known.statements.clear()
        results = ask(driver, known.prepared(connection, sent))
    return read_answers(connection, results)[1:]


def _whole(connection: Connection, known: KnownStatements, requests: Sequence[Request]) -> list[Answer]:
    """Carry out a whole transaction, whose changes are visible first and then durable.

    PostgreSQL itself begins the transaction, and commits it at the end of the group. A BEGIN is needed only for another
    isolation level than the database's.
    """
    driver = cast("Any", connection.connection.dbapi_connection)
    # After a use with another level, SQLAlchemy sets the connection back to the database's level, but explicitly.
    begin = _beginning(driver, needless=connection.dialect.default_isolation_level)
    visible = [*requests, _VISIBLE] if begin is None else [begin, *requests, _VISIBLE, _COMMIT]
    results = ask(driver, known.prepared(connection, visible), known.prepared(connection, [_DURABLE]))
    if any(map(is_unknown_statement, results[:-1])):
        # Nothing is stored yet.
        known.statements.clear()
        results = ask(driver, known.prepared(connection, visible), known.prepared(connection, [_DURABLE]))
    elif is_unknown_statement(results[-1]):
        known.statements.clear()
        results[-1:] = ask(driver, known.prepared(connection, [_DURABLE]))
    first = 0 if begin is None else 1
    return read_answers(connection, results)[first : first + len(requests)]


def _beginning(driver: Any, *, needless: str | None = None) -> Request | None:  # noqa: ANN401 - a driver's
    """Return the statement that begins a transaction at the isolation level of the connection.

    Return None without a level, and for the level *needless*.
    """
    level = None if driver.isolation_level is None else driver.isolation_level.name.replace("_", " ")
    return None if level in (None, needless) else (f"BEGIN ISOLATION LEVEL {level}", {})


def _plainly(value: object) -> object:
    return list(value.values) if isinstance(value, Array) else value
