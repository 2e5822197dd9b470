"""Write entries on SQLite, where ids come from one counter row, in the order of commits.

See docs/design.md, "The tick".
"""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection
from sqlalchemy.engine import RootTransaction

from queues.database import dialects
from queues.database.left_out import require_stored
from queues.database.sqlite_statements import Row, ensure_begun, run, run_each
from queues.errors import LrqError, NotInTransactionError, SetupError
from queues.send_log.destination_check import confirm_links
from queues.send_log.outbox import NewEntry, SourceTransaction, Written
from queues.send_log.wakeup import wake_other_process

_TAKE_IDS = (
    "UPDATE lrq_log_head SET last_id = last_id + ? "
    "RETURNING slot, last_id, (SELECT site_id FROM lrq_site), (SELECT branch FROM lrq_site), "
    "(SELECT last_id FROM lrq_sql_written), (SELECT number FROM lrq_link_changes), "
    "(SELECT rank FROM lrq_ring_member)"
)
# Ids have no gaps, so the ids of refused entries are given back.
_GIVE_BACK = "UPDATE lrq_log_head SET last_id = last_id - ?"
_TAKE_OUT = "DELETE FROM lrq_log_entries_{partition} WHERE id >= ?"
_ADOPT = "UPDATE lrq_log_entries_{partition} SET transaction_id = ? WHERE id > ? AND id < ?"
_INSERT = (
    "INSERT INTO lrq_log_entries_{partition} "
    "(id, transaction_id, client, tag_set, destinations, item_key, partition_key, created_us, payload{column}) "
    "VALUES (?, ?, ?, ?, "
    "CASE WHEN EXISTS (SELECT 1 FROM lrq_tag_sets WHERE number = ? AND shared) THEN NULL ELSE ? END, ?, ?, ?, ?{mark})"
)

# SQLite has no transaction ids, so the first entry's id identifies the transaction.
_first_ids: WeakKeyDictionary[RootTransaction, int] = WeakKeyDictionary()
_NO_ID = 2**63 - 1


def write(connection: Connection, client: str, entries: Sequence[NewEntry], created_us: int) -> Written:
    """Insert *entries* in the caller's transaction, whose first call takes the write lock.

    Raises `NotInTransactionError` on a connection in autocommit, and `LinkEndedError`. Raises `SetupError` in the file
    of a ring's member: the other members would lack the entries. A trigger of others that leaves entries out raises
    that too.
    """
    ensure_begun(connection)
    if dialects.of(connection).commits_alone(connection):
        # Ids taken now would be committed, and could not be given back.
        raise _no_transaction()
    partition, last_id, site, branch, last_of_view, link_change, rank = _take_ids(connection, len(entries))
    try:
        if rank is not None:
            raise SetupError(
                f"the file belongs to rank {rank} of the ring {site}, where only producers send entries: "
                "use lr_client.producer or `lrq produce`"
            )
        confirm_links(connection, client, entries, link_change)
    except LrqError:
        run(connection, _GIVE_BACK, (len(entries),))
        raise
    first_id = last_id - len(entries) + 1
    transaction = _transaction(connection, first_id)
    # The view `lrq_transmit` does not know the transaction. Since its first entry no other transaction has written.
    if (last_of_view or 0) > transaction:
        run(connection, _ADOPT.format(partition=int(partition)), (transaction, transaction, first_id))
    rows = _rows(client, entries, last_id - len(entries), transaction, created_us)
    try:
        _insert(connection, partition, rows)
    except SetupError:
        # The caller may commit in spite of the error.
        run(connection, _TAKE_OUT.format(partition=int(partition)), (first_id,))
        run(connection, _GIVE_BACK, (len(entries),))
        raise
    wake_other_process(branch)
    return Written(site, branch, last_id)


def write_all(connection: Connection, transactions: Sequence[SourceTransaction], created_us: int) -> None:
    """Insert the entries of several source transactions, which one commit of the caller makes durable together."""
    total = sum(len(each.entries) for each in transactions)
    ensure_begun(connection)
    partition, last_id, *_ = _take_ids(connection, total)
    before = last_id - total
    rows: list[Row] = []
    for client, entries in transactions:
        rows += _rows(client, entries, before, before + 1, created_us)
        before += len(entries)
    _insert(connection, partition, rows)


def _take_ids(connection: Connection, count: int) -> tuple[Any, ...]:
    """Take *count* ids; raise `SetupError` if a trigger of others leaves the change of the counter out."""
    taken = run(connection, _TAKE_IDS, (count,))
    require_stored("lrq_log_head", len(taken), 1)
    return taken[0]


def _rows(client: str, entries: Sequence[NewEntry], before: int, transaction: int, created_us: int) -> list[Row]:
    """Return the rows of *entries*, whose ids follow *before*; the last column is the headers."""
    return [
        (
            before + index,
            transaction,
            client,
            entry.destinations.number,
            entry.destinations.number,
            entry.destinations.text,
            entry.item_key,
            entry.partition_key,
            created_us,
            entry.payload,
            entry.headers,
        )
        for index, entry in enumerate(entries, 1)
    ]


def _insert(connection: Connection, partition: int, rows: list[Row]) -> None:
    # Entries without headers have a statement without them, so that headers cost such entries nothing.
    has_headers = any(row[-1] for row in rows)
    column, mark = (", headers", ", ?") if has_headers else ("", "")
    given = rows if has_headers else [row[:-1] for row in rows]
    stored = run_each(connection, _INSERT.format(partition=int(partition), column=column, mark=mark), given)
    require_stored(f"lrq_log_entries_{partition}", stored, len(given))


def _transaction(connection: Connection, first_id: int) -> int:
    driver = connection.connection.dbapi_connection
    root = connection.get_transaction()
    if root is None or not getattr(driver, "in_transaction", True):
        raise _no_transaction()
    if not isinstance(root, RootTransaction):
        return first_id
    return _first_ids.setdefault(root, first_id)


def _no_transaction() -> NotInTransactionError:
    return NotInTransactionError(
        "transmit needs a transaction, but this connection commits every statement by itself: "
        "use a connection without autocommit"
    )


def first_written_id(connection: Connection) -> int:
    """Return the id of the first entry that `write` has inserted in the connection's transaction.

    Without such an entry, return an id above all others.
    """
    root = connection.get_transaction()
    return _first_ids.get(root, _NO_ID) if isinstance(root, RootTransaction) else _NO_ID
