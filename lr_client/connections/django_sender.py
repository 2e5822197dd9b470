"""Transmit on connections of Django: `django.db.connection` and `connections["other"]`; imports nothing of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lr_client.connections.autocommit import not_in_transaction
from lr_client.connections.sqlite_calls import sqlite_call, sqlite_token
from queues.database import dialects
from queues.database.dialect import Dialect
from queues.names import ClientName
from queues.positions import PositionToken
from queues.send_log.outbox import NewEntry
from queues.send_log.postgresql.transmit_call import transmit_call
from queues.send_log.sqlite.transmit_call import TOKEN

_MARK: Final = "%s"


def send(connection: Any, client: ClientName, entries: Sequence[NewEntry]) -> PositionToken:  # noqa: ANN401 - without types
    """Write *entries*; return their token.

    Raises `ConfigurationError` for another database than PostgreSQL and SQLite. Raises `NotInTransactionError` outside
    of `atomic()` while Django commits every statement. Django's errors pass.
    """
    write = _WRITES[dialects.named(connection.vendor)]
    if not connection.in_atomic_block and connection.get_autocommit():
        raise not_in_transaction("write `with transaction.atomic():` around the call, for the same database alias")
    with connection.cursor() as cursor:
        return write(cursor, client, entries)


def _write_postgresql(cursor: Any, client: ClientName, entries: Sequence[NewEntry]) -> PositionToken:  # noqa: ANN401
    cursor.execute(*transmit_call(client, entries, lambda _: _MARK))
    return PositionToken.parse(cursor.fetchone()[0])


def _write_sqlite(cursor: Any, client: ClientName, entries: Sequence[NewEntry]) -> PositionToken:  # noqa: ANN401
    driver = cursor.db.connection
    cursor.executemany(*sqlite_call(driver, client, entries, _MARK, begun=driver.in_transaction))
    cursor.execute(TOKEN)
    return sqlite_token(cursor.fetchone()[0])


_WRITES: Final[Mapping[Dialect, Callable[[Any, ClientName, Sequence[NewEntry]], PositionToken]]] = {
    dialects.POSTGRESQL: _write_postgresql,
    dialects.SQLITE: _write_sqlite,
}
