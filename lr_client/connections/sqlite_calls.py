"""The statements of a call on a connection of SQLite, for the driver to carry out one after the other."""

import os
import secrets
from collections.abc import Generator, Sequence
from typing import Any, Final

from lr_client.connections.driver_steps import Step, insert_steps
from queues.names import ClientName
from queues.positions import PositionToken
from queues.send_log.outbox import NewEntry
from queues.send_log.sqlite.transmit_call import (
    CHECKS_KEYS,
    IS_MARKED,
    MARK,
    TOKEN,
    Joining,
    joining,
    transmit_rows,
)
from queues.send_log.wakeup import wake_other_process

_PROCESS: Final = secrets.token_hex(8)
# A text of the last transaction of each connection. Connections come and go, but share few addresses.
_transactions: dict[str, str] = {}


def sqlite_steps(
    connection: object, client: ClientName, entries: Sequence[NewEntry], *, begun: bool
) -> Generator[Step, Any, PositionToken]:
    """Yield the steps of a call; expect the row of each step without values, and return the token.

    *begun*: a transaction has begun before the call. No step before the first INSERT reads the database. An error of a
    step is thrown into the generator, which undoes the entries of the call then.
    """
    checks_keys = _is_on((yield Step(CHECKS_KEYS)))
    is_marked = begun and not checks_keys and _is_on((yield Step(IS_MARKED)))
    joins = joining(begun=begun, checks_keys=checks_keys, is_marked=is_marked)
    owner = owner_of(connection)
    if not checks_keys:
        owner = _transaction(owner, joins)
    insert = Step(*transmit_rows(client, entries, "?", owner=owner, call=new_key(), joins=joins))
    yield from insert_steps(connection, insert, begun=begun)
    if not checks_keys and not is_marked:
        yield Step(MARK)
    (token,) = yield Step(TOKEN)
    return sqlite_token(token)


def _transaction(owner: str, joins: Joining) -> str:
    """Return a text of the present transaction of *owner*, in which *joins* is never `LIKELY`.

    The rollback of a savepoint may undo the entries that the next call joins. The last entries are then earlier ones.
    """
    if joins is Joining.NEW or owner not in _transactions:
        _transactions[owner] = new_key()
    return f"{owner}-{_transactions[owner]}"


def _is_on(row: tuple[int] | None) -> bool:
    # A SQLite without foreign keys has no row.
    return row is not None and bool(row[0])


def owner_of(connection: object) -> str:
    """Return a text of *connection*, which no other living connection of this database has."""
    # Processes that are forked from one share the first text, and their connections often have the same addresses.
    return f"{_PROCESS}-{os.getpid():x}-{id(connection):x}"


def new_key() -> str:
    """Return a text that no other call has."""
    return secrets.token_hex(8)


def sqlite_token(text: str | bytes) -> PositionToken:
    """Return the token in *text*, and wake the server of its branch in another process."""
    # The connection's own conversion of texts may return bytes.
    token = PositionToken.parse(text.decode() if isinstance(text, bytes) else text)
    wake_other_process(token.branch)
    return token
