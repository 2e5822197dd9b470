"""The entries that a transaction owes to other sites, before its commit."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session

from queues.database.engine_check import require_connection
from queues.database.transactions import mapped_setup_errors
from queues.send_log.opening import uncommitted


@dataclass(frozen=True, slots=True)
class Transmitted:
    """One entry of a transaction; `destinations` are sorted site ids, and `headers` are texts by name.

    Example:
        >>> assert transmitted(session) == [Transmitted("policy", ("lima", "tokyo"), b"rule 1")]
    """

    client: str
    destinations: tuple[str, ...]
    payload: bytes
    item_key: str | None = None
    partition_key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)


def transmitted(
    session: Session | scoped_session[Session] | Connection,
    *,
    client: str | None = None,
    destination: str | None = None,
) -> list[Transmitted]:
    """Return the entries that the open transaction of *session* has transmitted so far, in order.

    Pending changes of a session are flushed first, because they may transmit. Entries of a rolled-back savepoint are
    not in the list. After the end of the whole transaction the list is empty. Within an outer transaction of the test,
    a `commit()` of the session ends only a savepoint: the list keeps the entries.

    *client* and *destination* select entries. With an `AsyncSession`: `await session.run_sync(transmitted)`. Needs no
    server and changes nothing.

    Raises:
        UsageError: *session* is no session or connection, or it is asynchronous.
        SetupError: the database has no lrq tables, or lrq does not support it.
        StoreUnavailableError: on SQLite, the committed entries cannot be read beside the transaction.
    """
    connection = _open_transaction(session)
    if connection is None:
        return []
    with mapped_setup_errors():
        found = [Transmitted(*entry) for entry in uncommitted(connection)]
    return [
        entry
        for entry in found
        if client in (None, entry.client) and (destination is None or destination in entry.destinations)
    ]


def _open_transaction(given: object) -> Connection | None:
    """Return the connection of an open transaction; None without one, because a look should not begin one."""
    given = given() if isinstance(given, scoped_session) else given
    if isinstance(given, Session):
        if given.in_transaction():
            given.flush()
        elif not isinstance(bind := given.get_bind(), Connection):
            return None
        else:
            given = bind
    connection = require_connection(given, "transmitted")
    return connection if connection.in_transaction() else None
