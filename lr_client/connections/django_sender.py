"""Transmit on connections of Django: `django.db.connection` and `connections["other"]`; imports nothing of it."""

import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from lr_client.connections.autocommit import not_in_transaction
from lr_client.connections.driver_steps import Step, carry_out, insert_steps
from lr_client.connections.sqlite_calls import new_key, owner_of, sqlite_token
from queues.database import dialects
from queues.database.dialect import Dialect
from queues.names import ClientName
from queues.positions import PositionToken
from queues.send_log.outbox import NewEntry
from queues.send_log.postgresql.transmit_call import transmit_call
from queues.send_log.sqlite.transmit_call import TOKEN, Joining, joining, transmit_rows
from queues.send_log.sqlite.uncommitted import last_is_committed

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
    return carry_out(_sqlite_steps(cursor.db, client, entries), cursor, cursor.db.connection)


def _sqlite_steps(
    wrapper: Any,  # noqa: ANN401
    client: ClientName,
    entries: Sequence[NewEntry],
) -> Generator[Step, Any, PositionToken]:
    owner, joins = _transaction(wrapper)
    driver = wrapper.connection
    insert = Step(*transmit_rows(client, entries, _MARK, owner=owner, call=new_key(), joins=joins))
    yield from insert_steps(driver, insert, begun=driver.in_transaction)
    (token,) = yield Step(TOKEN)
    return sqlite_token(token)


class _Known(NamedTuple):
    """The last transaction of a connection: its outermost block, its list of hooks, and a text of the transaction."""

    block: object
    hooks: object
    text: str


_transactions: WeakKeyDictionary[object, _Known] = WeakKeyDictionary()


def _transaction(wrapper: Any) -> tuple[str, Joining]:  # noqa: ANN401
    """Return a text of the present transaction, and how a call joins its earlier entries."""
    driver = wrapper.connection
    if not (wrapper.atomic_blocks and wrapper.commit_on_exit):
        # The application ends the transaction. Django checks foreign keys always.
        return owner_of(driver), joining(begun=driver.in_transaction, checks_keys=True, is_marked=False)
    # Django makes a new list at the end of each transaction, and at the rollback of a savepoint.
    block, hooks = wrapper.atomic_blocks[0], getattr(wrapper, "run_on_commit", object())
    known = _transactions.get(wrapper)
    if known is None or known.block is not block or (known.hooks is not hooks and _is_committed(driver, known.text)):
        # A decorator enters the same block at each call.
        known = _Known(block, hooks, f"{owner_of(driver)}-{new_key()}")
    _transactions[wrapper] = known._replace(hooks=hooks)
    return known.text, Joining.SAME


def _is_committed(driver: sqlite3.Connection, text: str) -> bool:
    with closing(driver.cursor()) as cursor:
        files = {name: file for _, name, file in cursor.execute("PRAGMA database_list")}
    return last_is_committed(files["main"], text)


_WRITES: Final[Mapping[Dialect, Callable[[Any, ClientName, Sequence[NewEntry]], PositionToken]]] = {
    dialects.POSTGRESQL: _write_postgresql,
    dialects.SQLITE: _write_sqlite,
}
