"""A permanent connection in autocommit, for statements that run many times a second."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, cast

from sqlalchemy import Connection, Engine

from queues.clock import SYSTEM_CLOCK
from queues.database.postgresql.answers import Answer
from queues.database.postgresql.pipeline import ask_alone
from queues.database.postgresql.prepared_statements import Request, forget_prepared
from queues.database.transactions import own_errors


class Ask(Protocol):
    """Carries out one statement."""

    def __call__(self, asked: Request, meanwhile: Callable[[], None] | None = None) -> Answer:
        """Return the answer; call *meanwhile* while the database works. An error of that call closes the connection."""
        ...


#: Seconds without use after which a connection is replaced: the network may have dropped it silently.
_IDLE: Final = 30.0


def held_connection(engine: Engine) -> Connection:
    """Open a connection in autocommit outside the pool: the pool's connections are for short use."""
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    connection.detach()
    # The driver may have dropped the statements that the pool's users have prepared.
    forget_prepared(connection)
    return connection


def close_held(connection: Connection) -> None:
    """Close a connection of `held_connection`; one that is lost already, too.

    SQLAlchemy would roll back first, and log the error of a lost connection with its traceback.
    """
    with suppress(Exception):
        if not connection.invalidated:
            cast("Any", connection.connection.dbapi_connection).close()
            connection.invalidate()
        connection.close()


class Direct:
    """A connection that opens at its first use, and closes after an error or a long rest. Not for several threads."""

    def __init__(self, engine: Engine, settings: str, check: Callable[[Connection], None] = lambda _: None) -> None:
        """Run the statement *settings* first on each new connection, then *check*, which may raise."""
        self._engine = engine
        self._settings = settings
        self._check = check
        self._connection: Connection | None = None
        self._used = 0.0

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        """Yield a function that carries out statements, all on one connection; after an error it carries out none.

        Raises the errors of `queues.database.transactions.own_errors`.
        """
        with self.connected() as connection:
            yield lambda asked, meanwhile=None: ask_alone(connection, asked, meanwhile)

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Yield the connection; like `asking`."""
        if SYSTEM_CLOCK.monotonic() - self._used > _IDLE:
            self.close()
        try:
            with own_errors():
                connection = self._connection = self._connection or self._opened()
                yield connection
        except BaseException:
            self.close()
            raise
        self._used = SYSTEM_CLOCK.monotonic()

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            close_held(connection)

    def _opened(self) -> Connection:
        connection = held_connection(self._engine)
        try:
            connection.exec_driver_sql(self._settings)
            self._check(connection)
        except BaseException:
            close_held(connection)
            raise
        return connection
