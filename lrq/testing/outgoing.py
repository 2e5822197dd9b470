"""The entries that a transaction owes to other sites, before its commit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lr_client.connections.driver_errors import mapped_driver_errors
from lrq.testing.open_transactions import open_transaction
from queues.database.transactions import mapped_setup_errors
from queues.send_log.opening import uncommitted

if TYPE_CHECKING:
    from lr_client.connections.accepted import TransmitConnection


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
    session: "TransmitConnection", *, client: str | None = None, destination: str | None = None
) -> list[Transmitted]:
    """Return the entries that the open transaction of *session* has transmitted so far, in order.

    *session* is a `Session`, `scoped_session` or `Connection` of SQLAlchemy, a `psycopg.Connection`, a
    `sqlite3.Connection` or `django.db.connection`.

    Pending changes of a session are flushed first, because they may transmit. Entries of a rolled-back savepoint are
    not in the list. After the end of the whole transaction the list is empty. Within an outer transaction of the test,
    a `commit()` ends only a savepoint: the list keeps the entries.

    *client* and *destination* select entries. With an `AsyncSession`: `await session.run_sync(transmitted)`. Needs no
    server and changes nothing.

    Raises:
        UsageError: *session* is no session or connection, or it is asynchronous.
        SetupError: the database has no lrq tables, or lrq does not support it.
        StoreUnavailableError: on SQLite, the committed entries cannot be read beside the transaction.
    """
    found = open_transaction(session)
    if found is None:
        return []
    with mapped_setup_errors(), mapped_driver_errors():
        entries = [Transmitted(*entry) for entry in uncommitted(found.dialect, found.read, first_id=found.first_id)]
    return [
        entry
        for entry in entries
        if client in (None, entry.client) and (destination is None or destination in entry.destinations)
    ]
