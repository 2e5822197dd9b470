"""The session that a listener is given, and what it may answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from sqlalchemy import Connection, Engine, event, exc
from sqlalchemy.orm import Session, SessionTransaction

from queues.errors import ListenerError, NotInTransactionError, StoreUnavailableError

_RULE: Final = "the transaction is the subscriber's to end: return True to keep your changes, False to undo them"


class ListenerSession(Session):
    """A session whose transaction the listener cannot end."""

    def commit(self) -> NoReturn:
        """Refuse."""
        raise ListenerError(f"the listener called commit() on its session; {_RULE}")

    def rollback(self) -> NoReturn:
        """Refuse."""
        raise ListenerError(f"the listener called rollback() on its session; {_RULE}")

    def close(self) -> NoReturn:
        """Refuse."""
        raise ListenerError(f"the listener closed its session; {_RULE}")

    def reset(self) -> NoReturn:
        """Refuse."""
        raise ListenerError(f"the listener reset its session; {_RULE}")

    def invalidate(self) -> NoReturn:
        """Refuse."""
        raise ListenerError(f"the listener invalidated its session; {_RULE}")

    def require_unended(self) -> None:
        """Raise `ListenerError` when the transaction was ended by other means."""
        root = self.get_transaction()
        if root is None or not root.is_active or not self.connection().in_transaction():
            raise ListenerError(f"the listener ended the transaction of its session; {_RULE}")

    def finish(self) -> None:
        """Close it; what was not committed is rolled back."""
        super().close()


@contextmanager
def transaction(engine: Engine) -> Iterator[ListenerSession]:
    """Open a session with one transaction: committed at the end, rolled back on an exception."""
    with _connect(engine) as connection, connection.begin():
        session = ListenerSession(connection, join_transaction_mode="control_fully")
        root = session.begin()
        event.listen(connection, "commit", _refuse_commit)
        try:
            yield session
            event.remove(connection, "commit", _refuse_commit)
            _commit(connection, root)
        finally:
            session.finish()


def _connect(engine: Engine) -> Connection:
    try:
        return engine.connect()
    except exc.TimeoutError as error:
        raise StoreUnavailableError("no connection of the engine's pool became free: make the pool larger") from error


def _commit(connection: Connection, root: SessionTransaction) -> None:
    try:
        root.commit()
    except BaseException:
        # SQLAlchemy takes the transaction for ended now, but on SQLite it is still open and holds the write lock.
        connection.invalidate()
        raise


def _refuse_commit(connection: Connection) -> NoReturn:
    connection.invalidate()  # for the reason that `_commit` has
    raise ListenerError(f"the listener committed the connection of its session; {_RULE}")


def require_transactions(connection: Connection) -> None:
    """Raise `NotInTransactionError` when *connection*, which has begun, commits every statement by itself."""
    driver: Any = connection.connection.dbapi_connection
    if connection.dialect.name == "sqlite":
        # Between statements either someone has begun a transaction, or the driver will before the first write.
        autocommits = driver.isolation_level is None and not driver.in_transaction
    else:
        autocommits = driver.autocommit
    if autocommits:
        raise NotInTransactionError(
            "a subscriber needs transactions, but this engine commits every statement by itself: "
            "pass one without isolation_level='AUTOCOMMIT'"
        )


def checked_answer(answer: object, callback: str) -> bool:
    """Return what a listener answered; raise `ListenerError` for anything but True and False."""
    if answer is True or answer is False:
        return answer
    raise ListenerError(f"{callback} returned {type(answer).__name__}: return True (applied) or False (try again)")
