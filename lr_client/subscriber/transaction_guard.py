"""A savepoint around application code detects a COMMIT or ROLLBACK in that code.

SQLAlchemy does not notice a COMMIT or ROLLBACK in text, through the driver or by a trigger. A savepoint ends with
its transaction, so a missing savepoint shows each of them, even after another transaction has begun.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from sqlalchemy import Connection, exc, text

from lr_client.subscriber.listener_session import ListenerSession
from queues.database.transactions import map_error
from queues.errors import ListenerError
from queues.words import class_of

#: Sets the savepoint; needs an open transaction, on SQLite one that has already written.
SAVEPOINT: Final = text("SAVEPOINT lrq_listener")
_RELEASE: Final = "RELEASE SAVEPOINT lrq_listener"
# ROLLBACK TO also works in an aborted transaction, which is rolled back in any case.
_TEST: Final = "ROLLBACK TO SAVEPOINT lrq_listener"
#: SQLSTATEs of PostgreSQL for a missing savepoint and for a missing transaction.
_MISSING_STATES: Final = ("3B001", "25P01")
_MISSING_SQLITE: Final = "no such savepoint"


class EndedError(Exception):
    """Application code has ended the transaction; `error` is the exception of that code, or None."""

    def __init__(self, error: BaseException | None = None) -> None:
        """Store *error*."""
        super().__init__("the transaction was ended")
        self.error = error


@contextmanager
def guarded(connection: Connection, session: ListenerSession | None = None) -> Iterator[None]:
    """Run application code, then release `SAVEPOINT`, which the caller has set before.

    Raises `EndedError` when the savepoint is gone after the code returned or raised. Raises `ListenerError` when the
    code has ended the transaction of *session* by a method call.
    """
    driver = connection.connection.dbapi_connection
    failures = connection.dialect.loaded_dbapi.Error
    try:
        yield
        if session is not None:
            session.settle()
    except BaseException as error:
        if _is_gone(driver, failures):
            raise EndedError(error) from error
        raise
    if session is not None:
        session.require_unended()
    try:
        connection.exec_driver_sql(_RELEASE)
    except exc.DBAPIError as error:
        if _is_gone(driver, failures):
            raise EndedError from error
        raise


def ended(error: EndedError, *, committed: bool) -> Exception:
    """Return the exception to raise for *error*: `ListenerError`, or `StoreUnavailableError` for a database failure.

    SQLite, for example, rolls back by itself when the disk is full.
    """
    raised = error.error
    if not committed and isinstance(raised, exc.DBAPIError) and (unavailable := map_error(raised)):
        return unavailable
    fate = "its changes before that are committed" if committed else "its changes are not committed"
    words = "" if raised is None or isinstance(raised, ListenerError) else f"; the listener raised {class_of(raised)}"
    return ListenerError(
        f"the listener ended the transaction that lrq gave it ({fate}, the entries come again): "
        f"leave COMMIT and ROLLBACK to lrq, use session.begin_nested() for parts{words}"
    )


def _is_gone(driver: Any, failures: type[Exception]) -> bool:  # noqa: ANN401 - a connection of any driver
    """Return whether the savepoint is gone; asks the driver, because SQLAlchemy's own state may be wrong."""
    try:
        with closing(driver.cursor()) as cursor:
            cursor.execute(_TEST)
    except failures as error:
        return getattr(error, "sqlstate", None) in _MISSING_STATES or _MISSING_SQLITE in str(error)
    return False
