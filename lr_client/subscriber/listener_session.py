"""The session that a listener receives, and the check of its answer."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, NoReturn

from sqlalchemy import Connection, Engine, event, exc
from sqlalchemy.orm import Session, SessionTransaction

from queues.database import dialects
from queues.database.driver_errors import replaced_if_read_only
from queues.errors import ListenerError, NotInTransactionError, StoreUnavailableError

#: Execution option of an engine: a function that returns a context manager for a session. Each call of a listener runs
#: inside that context. The integration of a framework sets the option, to make its models part of the transaction.
AROUND: Final = "lrq_around_listener"
_RULE: Final = "the transaction is the subscriber's to end: return True to keep your changes, False to undo them"


class ListenerSession(Session):
    """A session whose transaction the listener cannot end."""

    def commit(self) -> NoReturn:
        """Raise `ListenerError`."""
        raise ListenerError(f"the listener called commit() on its session; {_RULE}")

    def rollback(self) -> NoReturn:
        """Raise `ListenerError`."""
        raise ListenerError(f"the listener called rollback() on its session; {_RULE}")

    def close(self) -> NoReturn:
        """Raise `ListenerError`."""
        raise ListenerError(f"the listener closed its session; {_RULE}")

    def reset(self) -> NoReturn:
        """Raise `ListenerError`."""
        raise ListenerError(f"the listener reset its session; {_RULE}")

    def invalidate(self) -> NoReturn:
        """Raise `ListenerError`."""
        raise ListenerError(f"the listener invalidated its session; {_RULE}")

    def require_unended(self) -> None:
        """Raise `ListenerError` when the transaction has ended in another way, for example through its connection."""
        root = self.get_transaction()
        if root is None or not root.is_active or not self.connection().in_transaction():
            raise ListenerError(f"the listener ended the transaction of its session; {_RULE}")

    def settle(self) -> None:
        """Commit the savepoints that the listener has left open, and flush its pending changes."""
        while (nested := self.get_nested_transaction()) is not None:
            nested.commit()
        self.flush()

    def finish(self) -> None:
        """Close the session; uncommitted changes are rolled back."""
        super().close()


@contextmanager
def transaction(engine: Engine) -> Iterator[ListenerSession]:
    """Open a session with one transaction: committed at the end, rolled back on an exception."""
    with _connect(engine) as connection, replaced_if_read_only(connection), connection.begin():
        session = ListenerSession(connection, join_transaction_mode="control_fully")
        root = session.begin()
        event.listen(connection, "commit", _refuse_commit)
        try:
            yield session
            event.remove(connection, "commit", _refuse_commit)
            _commit(connection, root)
        finally:
            session.finish()


@contextmanager
def savepoint(connection: Connection) -> Iterator[ListenerSession]:
    """Open a session within a savepoint of *connection*: released at the end, rolled back on an exception.

    The transaction of *connection* must have written already on SQLite. If the listener has ended that transaction, the
    connection is invalidated.
    """
    session = ListenerSession(connection, join_transaction_mode="create_savepoint")
    root = session.begin()
    session.connection()
    event.listen(connection, "commit", _refuse_commit)
    try:
        yield session
        root.commit()
    finally:
        if event.contains(connection, "commit", _refuse_commit):
            event.remove(connection, "commit", _refuse_commit)
        try:
            session.finish()
        except exc.DBAPIError:  # the savepoint has ended with its transaction
            connection.invalidate()


def around(session: ListenerSession) -> AbstractContextManager[None]:
    """Return the context for a call of the listener with *session*: that of the engine's option `AROUND`, or none."""
    made: Callable[[ListenerSession], AbstractContextManager[None]] | None
    made = session.connection().get_execution_options().get(AROUND)
    return nullcontext() if made is None else made(session)


def _connect(engine: Engine) -> Connection:
    try:
        return engine.connect()
    except exc.TimeoutError as error:
        raise StoreUnavailableError("no connection of the engine's pool became free: make the pool larger") from error


def _commit(connection: Connection, root: SessionTransaction) -> None:
    try:
        root.commit()
    except BaseException:
        # SQLAlchemy now sees no transaction, but on SQLite one is still open and holds the write lock.
        connection.invalidate()
        raise


def _refuse_commit(connection: Connection) -> NoReturn:
    connection.invalidate()  # see `_commit`
    raise ListenerError(f"the listener committed the connection of its session; {_RULE}")


def require_transactions(connection: Connection) -> None:
    """Raise `NotInTransactionError` when *connection*, already begun, commits every statement by itself."""
    if dialects.of(connection).commits_alone(connection):
        raise NotInTransactionError(
            "a subscriber needs transactions, but this engine commits every statement by itself: "
            "pass one without isolation_level='AUTOCOMMIT' or autocommit=True"
        )


def checked_answer(answer: object, callback: str) -> bool:
    """Return the answer of a listener; raise `ListenerError` unless it is True or False."""
    if answer is True or answer is False:
        return answer
    raise ListenerError(f"{callback} returned {type(answer).__name__}: return True (applied) or False (try again)")


def require_done(result: object, callback: str) -> None:
    """Raise `ListenerError` if a callback without an answer returned an awaitable: its code has not run."""
    if isinstance(result, Awaitable):
        close = getattr(result, "close", None)
        if close is not None:
            close()
        raise ListenerError(f"{callback} returned {type(result).__name__}: nothing awaits it, make it a plain function")
