"""A connection that is held, on which each statement is a transaction: for what is done many times a second."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sqlalchemy import Connection, Engine

from queues.clock import SYSTEM_CLOCK
from queues.dialects.postgresql_exchange import Answer, Request, ask_alone
from queues.transactions import mapped_errors

#: Carries out a statement.
Ask = Callable[[Request], Answer]
#: A connection that nobody used for so long, in seconds, may have been dropped on its way without a word.
_IDLE: Final = 30.0


def held_connection(engine: Engine) -> Connection:
    """Open a connection in autocommit that is not the pool's: what that has is for those who come and go."""
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    connection.detach()
    return connection


class Direct:
    """Opened when it is used, closed after an error or a long rest. Not for several threads."""

    def __init__(self, engine: Engine, settings: str) -> None:
        """Begin each connection with the statement *settings*."""
        self._engine = engine
        self._settings = settings
        self._connection: Connection | None = None
        self._used = 0.0

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        """Give what carries out statements: within the block all on one connection, or none any more.

        Raises the errors of `queues.transactions.mapped_errors`.
        """
        if SYSTEM_CLOCK.monotonic() - self._used > _IDLE:
            self.close()
        try:
            with mapped_errors():
                connection = self._connection = self._connection or self._opened()
                yield lambda request: ask_alone(connection, request)
        except BaseException:
            self.close()
            raise
        self._used = SYSTEM_CLOCK.monotonic()

    def close(self) -> None:
        """Let go of the connection, until it is used again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _opened(self) -> Connection:
        connection = held_connection(self._engine)
        try:
            connection.exec_driver_sql(self._settings)
        except BaseException:
            connection.close()
            raise
        return connection
