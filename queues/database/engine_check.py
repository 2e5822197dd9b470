"""Check the engines, connections and sessions that an application hands over: one sentence for each wrong object."""

from sqlalchemy import URL, Connection, Engine
from sqlalchemy.util.concurrency import in_greenlet

from queues.database import dialects
from queues.database.orm_sessions import is_session
from queues.errors import UsageError

_MAKE = "make one with queues.create_engine"


def require_engine(given: object, what: str, *, of_any_database: bool = False) -> Engine:
    """Return *given* if it is an engine of a database that lrq supports; *what* names the call, such as `wait_applied`.

    Raises `UsageError` for any other object, with one sentence that names the right one. Raises `ConfigurationError`
    for an engine of another database or driver, unless *of_any_database*.
    """
    if not isinstance(given, Engine):
        raise UsageError(f"{what} needs an engine, not {described(given)}: {_instead_of_engine(given)}")
    # Within `run_sync` an asynchronous engine works like any other.
    if given.dialect.is_async and not in_greenlet():
        raise UsageError(f"{what} works in threads, and the engine is asynchronous: {_MAKE} for the same database")
    if not of_any_database:
        dialects.of(given)
    return given


def require_connection(given: object, what: str) -> Connection:
    """Return the connection of a session, or *given* if it is a connection; *what* names the call.

    Raises `UsageError` for any other object, with one sentence that names the right one.
    """
    if isinstance(given, Connection):
        return given
    if is_session(given):
        return given.connection()
    if hasattr(given, "run_sync"):
        raise UsageError(
            "the session is asynchronous: pass the method and its arguments to `await session.run_sync(...)`"
        )
    raise UsageError(
        f"{what} works in a transaction of the application: pass its Session or Connection, not {described(given)}"
    )


def _instead_of_engine(given: object) -> str:
    if is_session(given):
        return "pass `session.get_bind()`, or the engine that the sessions are made with"
    match given:
        case Connection():
            return "pass `connection.engine`"
        case str() | URL():
            return "pass queues.create_engine(url)"
    return f"this part of lrq works in threads, so {_MAKE} for the same database" if _is_asynchronous(given) else _MAKE


def _is_asynchronous(given: object) -> bool:
    # By name, because the module of these classes needs greenlet, which an application in threads may lack.
    return any(kind.__module__.startswith("sqlalchemy.ext.asyncio") for kind in type(given).__mro__)


def described(given: object) -> str:
    """Name an object by its class and library: `sqlite3.Connection`; never by its content, which may be a password."""
    kind = given if isinstance(given, type) else type(given)
    library = kind.__module__.partition(".")[0]
    named = kind.__name__ if library in ("builtins", "sqlalchemy") else f"{library}.{kind.__name__}"
    return f"the class {named}" if isinstance(given, type) else f"{'an' if named[:1] in 'aeiouAEIOU' else 'a'} {named}"
