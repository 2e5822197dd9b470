"""Writing entries on SQLite: ids come from one counter row, so they are in commit order (DESIGN 2)."""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from sqlalchemy import Connection
from sqlalchemy.engine import RootTransaction

from queues.errors import NotInTransactionError
from queues.log.doorbell import ring_outside
from queues.log.outbox import NewEntry, Written

_TAKE_IDS = (
    "UPDATE lrq_log_head SET last_id = last_id + ? "
    "RETURNING slot, last_id, (SELECT site_id FROM lrq_site), (SELECT branch FROM lrq_site)"
)
_INSERT = (
    "INSERT INTO lrq_log_entries_{slot} "
    "(id, transaction_id, client, tag_set, destinations, item_key, partition_key, created_us, payload) "
    "VALUES (?, ?, ?, ?, "
    "CASE WHEN EXISTS (SELECT 1 FROM lrq_tag_sets WHERE number = ? AND shared) THEN NULL ELSE ? END, ?, ?, ?, ?)"
)

# SQLite has no transaction ids: the first id that a transaction takes names it.
_first_ids: WeakKeyDictionary[RootTransaction, int] = WeakKeyDictionary()


def write(connection: Connection, client: str, entries: Sequence[NewEntry], created_us: int) -> Written:
    """Insert *entries* in the caller's transaction; the first statement takes the write lock."""
    taken = connection.exec_driver_sql(_TAKE_IDS, (len(entries),)).one()
    slot, last_id, site, branch = taken
    transaction = _transaction(connection, last_id - len(entries) + 1)
    rows = [
        (
            last_id - len(entries) + 1 + index,
            transaction,
            client,
            entry.destinations.number,
            entry.destinations.number,
            entry.destinations.text,
            entry.item_key,
            entry.partition_key,
            created_us,
            entry.payload,
        )
        for index, entry in enumerate(entries)
    ]
    statement = _INSERT.format(slot=int(slot))
    if len(rows) == 1:
        connection.exec_driver_sql(statement, rows[0])
    else:
        connection.exec_driver_sql(statement, rows)
    ring_outside(branch)
    return Written(site, branch, last_id)


def _transaction(connection: Connection, first_id: int) -> int:
    driver = connection.connection.dbapi_connection
    root = connection.get_transaction()
    if root is None or not getattr(driver, "in_transaction", True):
        raise NotInTransactionError(
            "transmit needs a transaction, but this connection commits every statement by itself"
        )
    if not isinstance(root, RootTransaction):
        return first_id
    return _first_ids.setdefault(root, first_id)
