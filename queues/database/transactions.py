"""lrq's own transactions, on any engine, with the driver's errors mapped to `queues.errors`."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from sqlalchemy import URL, Connection, Engine, exc

from queues.database import dialects
from queues.database.connect_problems import problem
from queues.database.dialect import READING, Dialect
from queues.database.driver_errors import replaced_if_read_only
from queues.database.encodings import lacking
from queues.database.hidden_rows import SHOW_ALL
from queues.database.tables.rewritten import REWRITTEN
from queues.errors import ConfigurationError, NotInitializedError, SetupError, StoreUnavailableError, first_line


@contextmanager
def writing(engine: Engine, *, briefly: bool = False, snapshot: bool = False) -> Iterator[Connection]:
    """Open a transaction for writing; commit at the end of the block, roll back on an exception.

    With *snapshot*, all statements see the same state; for *briefly* see `writing_briefly`. Raises
    `StoreUnavailableError` if the database is locked, full or unreachable. Raises `NotInitializedError` if lrq's tables
    are missing.
    """
    dialect = dialects.of(engine)
    options = dialect.one_state if snapshot else {}
    with own_errors(engine), _connected(engine, dialect, options) as connection, connection.begin():
        dialect.begin_write(connection, briefly=briefly)
        if snapshot:
            keep_rewritten(connection)
        yield connection


def writing_briefly(engine: Engine) -> AbstractContextManager[Connection]:
    """Like `writing`, for a few statements without pauses between them.

    PostgreSQL ends a transaction that stands still for 2 seconds, so a stopped process keeps no lock. An engine may set
    a shorter time. (SQLite has no means for that.)
    """
    return writing(engine, briefly=True)


@contextmanager
def reading(engine: Engine, *, snapshot: bool = False, rewritten: bool = True) -> Iterator[Connection]:
    """Open a transaction for reading; with *snapshot*, all statements see the same state.

    Without *rewritten*, no statement may read one of the `REWRITTEN` tables, and the transaction begins sooner.
    Raises the errors of `writing`.
    """
    dialect = dialects.of(engine)
    options = {READING: True, **(dialect.one_state if snapshot else {})}
    with own_errors(engine), _connected(engine, dialect, options) as connection, connection.begin():
        if snapshot and rewritten:
            keep_rewritten(connection)
        yield connection


@contextmanager
def _connected(engine: Engine, dialect: Dialect, options: Mapping[str, object]) -> Iterator[Connection]:
    with engine.connect() as connection, replaced_if_read_only(connection):
        # A transaction with one snapshot would see a rewritten table empty, even if that is the database's default.
        chosen = {**dialect.each_state(connection), **options}
        yield connection.execution_options(**chosen) if chosen else connection


def keep_rewritten(connection: Connection) -> None:
    """Prevent the rewriting of the `REWRITTEN` tables until the transaction ends; must be its first statement.

    A PostgreSQL snapshot from before finds such a table empty. The call takes no snapshot.
    """
    dialects.of(connection).keep(connection, *(table.name for table in REWRITTEN))


@contextmanager
def mapped_errors(engine: Engine | None = None) -> Iterator[None]:
    """Turn transient errors of the driver and missing tables into errors of lrq, with the cause attached.

    With *engine*, the error for a SQLite file that cannot be opened names the file.
    """
    try:
        yield
    except exc.TimeoutError as error:
        raise StoreUnavailableError("no connection to the database got free in time: allow more in its pool") from error
    except exc.DBAPIError as error:
        mapped = map_error(error, None if engine is None else engine.url)
        if mapped is None:
            raise
        raise mapped from error


@contextmanager
def own_errors(engine: Engine | None = None) -> Iterator[None]:
    """Like `mapped_errors`, for a block that calls no code of the application.

    Raises `ConfigurationError` for a character that the database's encoding lacks; the driver has sent nothing then.
    """
    with mapped_errors(engine):
        try:
            yield
        except UnicodeEncodeError as error:
            refused = lacking(error)
            if refused is None:
                raise
            raise refused from error


def is_lock_timeout(error: StoreUnavailableError) -> bool:
    """Return whether PostgreSQL gave up waiting for a lock, after its `lock_timeout` or because of a deadlock."""
    cause = error.__cause__
    return isinstance(cause, exc.DBAPIError) and getattr(cause.orig, "sqlstate", None) in _LOCK_NOT_GIVEN


def is_right_lacking(error: SetupError) -> bool:
    """Return whether PostgreSQL refused a statement, because the role lacks a right on a table of lrq."""
    cause = error.__cause__
    return isinstance(cause, exc.DBAPIError) and getattr(cause.orig, "sqlstate", None) == _NO_RIGHT


@contextmanager
def mapped_setup_errors() -> Iterator[None]:
    """Raise `SetupError` if the tables or rights are missing; let every other error of the caller pass."""
    try:
        yield
    except exc.DBAPIError as error:
        mapped = map_error(error)
        if not isinstance(mapped, SetupError):
            raise
        raise mapped from error


# Of errors without a state; the words of a state are in the language of the server.
_MISSING = ("no such table: lrq_", 'relation "lrq_')
_MISSING_STATES = ("42P01", "42703")
_NO_RIGHT = "42501"
# The functions of PostgreSQL that refuse a statement because of policies: its words depend on the language.
_ROW_SECURITY = ("check_enable_rls", "get_row_security_policies", "ExecWithCheckOptions")
#: A lock that did not come in time, and a deadlock.
_LOCK_NOT_GIVEN = ("55P03", "40P01")
#: SQLSTATE classes and codes after which a later try may succeed: connection, time-outs, conflicts, resources.
_TRANSIENT_STATES = ("08", "25006", "25P03", "25P04", "40", "53", "55P03", "57", "58")
_TRANSIENT_SQLITE = frozenset(
    {"SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY"}
)


def map_error(error: exc.DBAPIError, url: URL | None = None) -> SetupError | StoreUnavailableError | None:
    """Return our error for a driver's, or None for an error of the code; *url* names the database."""
    is_known = bool(getattr(error.orig, "sqlite_errorname", ""))
    is_lost = error.connection_invalidated or (isinstance(error, exc.OperationalError) and not is_known)
    return map_cause(error.orig, url, is_lost=is_lost)


def map_cause(
    cause: BaseException | None, url: URL | None = None, *, is_lost: bool = False
) -> SetupError | StoreUnavailableError | None:
    """Return our error for the driver's own error, or None for an error of the code.

    *is_lost*: an error without a code of the database means that the connection is lost.
    """
    words = first_line(cause) or type(cause).__name__
    state = getattr(cause, "sqlstate", None)
    if _is_missing(words, state):
        cure = "run `lrq init`; if some are there, `lrq doctor` names those that are missing"
        return NotInitializedError(f"the database has no lrq tables ({words}): {cure}")
    if state == _NO_RIGHT and "lrq" in words and _hides_rows(cause):
        return ConfigurationError(f"row level security hides rows from the database role ({words}): {SHOW_ALL}")
    if state == _NO_RIGHT and "lrq" in words:
        return ConfigurationError(f"the database role lacks a right ({words}): run `lrq grant` as the tables' owner")
    if state is not None:
        transient = str(state).startswith(_TRANSIENT_STATES)
    else:
        name = str(getattr(cause, "sqlite_errorname", ""))
        transient = is_lost or any(name.startswith(known) for known in _TRANSIENT_SQLITE)
    if not transient:
        return None
    return StoreUnavailableError(problem(words, url) or f"the database cannot be used just now: {words}")


def _hides_rows(cause: BaseException | None) -> bool:
    """Return whether PostgreSQL has refused a statement because of a policy of row level security."""
    return getattr(getattr(cause, "diag", None), "source_function", None) in _ROW_SECURITY


def _is_missing(words: str, state: str | None) -> bool:
    """Return whether an error tells that a table or a column of lrq is missing."""
    if state is None:
        return any(missing in words for missing in _MISSING)
    return state in _MISSING_STATES and "lrq_" in words
