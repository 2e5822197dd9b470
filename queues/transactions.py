"""Transactions of our own, on any engine, with the driver's errors mapped to ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, exc, text

from queues.errors import NotInitializedError, StoreUnavailableError
from queues.tables import REWRITTEN

#: Execution option that tells `queues.create_engine`'s SQLite engines to begin without the write lock.
READING = "lrq_reading"

# A write that touches nothing: on SQLite it takes the write lock, however the engine begins its transactions, so that
# a transaction never has to upgrade from reading (which no busy timeout can wait for).
_TAKE_WRITE_LOCK = text("UPDATE lrq_site SET site_id = site_id WHERE one IS NULL")


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Open one transaction that writes; commit at the end, roll back on an exception.

    Raises `StoreUnavailableError` when the database is locked, full or gone, `NotInitializedError` when it
    has no lrq tables.
    """
    with mapped_errors(), engine.connect() as connection, connection.begin():
        if engine.dialect.name == "sqlite":
            connection.execute(_TAKE_WRITE_LOCK)
        yield connection


#: How long a transaction of `writing_briefly` may stand still, in seconds.
_IDLE_SECONDS = 2
_END_WHEN_IDLE = text(f"SET LOCAL idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s'")


@contextmanager
def writing_briefly(engine: Engine) -> Iterator[Connection]:
    """Like `writing`, for a few statements in a row, without a caller's code between them.

    PostgreSQL ends it when it does not go on for 2 seconds: a process that is stopped just then keeps nothing locked
    that its successor needs. (Against that SQLite has no means.)
    """
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(_END_WHEN_IDLE)
        yield connection


@contextmanager
def reading(engine: Engine, *, snapshot: bool = False) -> Iterator[Connection]:
    """Open one transaction that only reads; with *snapshot*, all its statements see the same state.

    Raises the errors of `writing`.
    """
    options: dict[str, object] = {READING: True}
    if snapshot and engine.dialect.name == "postgresql":
        options["isolation_level"] = "REPEATABLE READ"
    with mapped_errors(), engine.connect().execution_options(**options) as connection, connection.begin():
        if snapshot:
            keep_rewritten(connection)
        yield connection


def keep_rewritten(connection: Connection) -> None:
    """Let none of the `REWRITTEN` tables be written anew until the transaction ends; the first statement of one.

    A PostgreSQL snapshot from before that finds the table empty. This takes no snapshot.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(_KEEP_REWRITTEN)


_KEEP_REWRITTEN = f"LOCK TABLE {', '.join(table.name for table in REWRITTEN)} IN ACCESS SHARE MODE"


@contextmanager
def mapped_errors() -> Iterator[None]:
    """Turn the driver's errors that the caller can do something about into ours, cause attached."""
    try:
        yield
    except exc.TimeoutError as error:
        raise StoreUnavailableError("no connection to the database got free in time: allow more in its pool") from error
    except exc.DBAPIError as error:
        mapped = map_error(error)
        if mapped is None:
            raise
        raise mapped from error


@contextmanager
def mapped_setup_errors() -> Iterator[None]:
    """Say in one sentence that the tables are missing; leave every other error of the caller's transaction alone."""
    try:
        yield
    except exc.DBAPIError as error:
        mapped = map_error(error)
        if not isinstance(mapped, NotInitializedError):
            raise
        raise mapped from error


_MISSING = ("no such table: lrq_", 'relation "lrq_')
#: SQLSTATE classes and codes that a later try can cure: connection, time-outs, conflicts, resources, operators.
_TRANSIENT_STATES = ("08", "25006", "25P03", "25P04", "40", "53", "55P03", "57", "58")
_TRANSIENT_SQLITE = frozenset(
    {"SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY"}
)


def map_error(error: exc.DBAPIError) -> NotInitializedError | StoreUnavailableError | None:
    """Return our error for a driver's, or None when it is nobody's fault but the code's."""
    cause = error.orig
    words = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
    if any(missing in words for missing in _MISSING):
        return NotInitializedError(f"the database has no lrq tables ({words}): run `lrq init`")
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        transient = str(state).startswith(_TRANSIENT_STATES)
    else:
        name = str(getattr(cause, "sqlite_errorname", ""))
        transient = error.connection_invalidated or any(name.startswith(known) for known in _TRANSIENT_SQLITE)
        transient = transient or (not name and isinstance(error, exc.OperationalError))
    return StoreUnavailableError(f"the database cannot be used just now: {words}") if transient else None
