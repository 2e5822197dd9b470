"""The statements that write entries through SQLite's view `lrq_transmit`, for drivers other than SQLAlchemy's. Pure.

The view needs a key to know the entries of one source transaction, because SQLite has no transaction ids.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from queues.names import ClientName
from queues.send_log.call_limits import require_callable
from queues.send_log.outbox import NewEntry


class Joining(Enum):
    """Whether the entries of a call belong to the transaction of earlier entries of the connection.

    The value is the size of an earlier transaction, in entries, that further calls still join. Calls of `LIKELY` join
    also an earlier transaction, which a listener then gets as one; the size bounds that.
    """

    NEW = 0
    LIKELY = 1_000
    SAME = 2**62


_INSERT: Final = (
    "INSERT INTO lrq_transmit (client, payload, destinations, item_key, partition_key, headers, transaction_key)"
    " VALUES ({0}, {0}, {0}, {0}, {0}, {0}, coalesce((SELECT transaction_key FROM lrq_sql_written"
    " WHERE substr(transaction_key, 1, length({0})) = {0} AND last_id - transaction_id < {0}), {0}))"
)
#: Each entry is a statement of its own, which may be refused. A call of several is undone as a whole then.
SAVE: Final = "SAVEPOINT lrq_transmit"
UNDO: Final = "ROLLBACK TO lrq_transmit"
RELEASE: Final = "RELEASE lrq_transmit"
#: Selects the token of the present transaction, after its entries; the one row has one text.
TOKEN: Final = "SELECT token FROM lrq_transmitted"

# SQLite resets this flag at the end of each transaction, and without foreign keys it has no other effect. Setting the
# flag makes SQLite compile its statements anew: about 1 ms for the view, once a transaction (measured).
# Plain pragmas, because a SELECT would begin to read: a deferred transaction that has read waits for no other writer.
#: Asks whether foreign keys are checked.
CHECKS_KEYS: Final = "PRAGMA foreign_keys"
#: Asks whether `MARK` was carried out in the present transaction.
IS_MARKED: Final = "PRAGMA defer_foreign_keys"
#: Marks the present transaction, after its first entry.
MARK: Final = "PRAGMA defer_foreign_keys = ON"


def begin(connection: object) -> str:
    """Return the statement that begins a transaction as Python's sqlite3 would before an INSERT on *connection*."""
    return f"BEGIN {getattr(connection, 'isolation_level', None) or ''}"


def joining(*, begun: bool, checks_keys: bool, is_marked: bool) -> Joining:
    """Return how a call joins earlier entries, by the state of its connection before the call.

    *begun*: a transaction has begun. *checks_keys*: foreign keys are checked, so the transaction cannot be marked.
    """
    if not begun:
        return Joining.NEW
    if checks_keys:
        return Joining.LIKELY
    return Joining.SAME if is_marked else Joining.NEW


def transmit_rows(
    client: ClientName, entries: Sequence[NewEntry], mark: str, *, owner: str, call: str, joins: Joining
) -> tuple[str, list[tuple[object, ...]]]:
    """Return the statement that writes one entry, and its values for each of *entries*.

    *mark* is the driver's mark of a parameter. *owner* is a text of the connection, and *call* one of this call alone.
    Raises `PayloadTooLargeError` for a payload that the view would refuse.
    """
    require_callable(entries)
    fresh = f"{owner} {call}"
    # Every key with this beginning is shared.
    shared = fresh if joins is Joining.NEW else f"{owner} "
    rows: list[tuple[object, ...]] = []
    most = joins.value
    for entry in entries:
        keys = entry.item_key, entry.partition_key
        written = (client, entry.payload, entry.destinations.text, *keys, entry.headers)
        rows.append((*written, shared, shared, most, fresh))
        # All entries of one call share a key.
        most = Joining.SAME.value
    return _INSERT.format(mark), rows
