"""Write entries on PostgreSQL: one statement, no waiting for locks, NOTIFY only for an idle server.

See docs/design.md, "Wakeups".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Transaction, TwoPhaseTransaction

from queues.database.left_out import failing_unless, require_stored, telling
from queues.database.postgresql.dialect import fetch, run
from queues.database.tables.log import PARTITIONS, log_entries
from queues.errors import NotInTransactionError
from queues.lineage import timeline_of
from queues.send_log.destination_check import confirm_links
from queues.send_log.outbox import NewEntry, Written
from queues.send_log.postgresql.notify import IS_SILENT, NOTIFY

# Every statement carries the set's text, and the row stores the text unless the set is shared. So applications need no
# cache of sets, which could be stale.
_NAMES = "slot, client, tag_set, destinations, item_key, partition_key, created_us, payload"
_COLUMNS, _WITH_HEADERS = f"({_NAMES})", f"({_NAMES}, headers)"
SLOT = f"(SELECT (last_value %% {PARTITIONS})::smallint FROM lrq_log_segment)"  # noqa: S608 - a constant
# One subquery returns the site, the branch and the timeline, separated by tabs, which none can contain.
_SITE = (
    "(SELECT site_id || chr(9) || branch || chr(9) || lower(left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))"
    " FROM lrq_site)"
)
# Identifies one of several sets of lrq's tables in the same database.
_TABLES = "'lrq_site'::regclass::oid::bigint"
# Read after the transaction has its id: an end of a link that this number lacks waits for the transaction.
_LINK_CHANGE = "(SELECT last_value FROM lrq_link_change)"
_INLINE = "CASE WHEN EXISTS (SELECT 1 FROM lrq_tag_sets WHERE number = %s AND shared) THEN NULL ELSE %s END"
# Entries without headers have statements without them, so that headers cost such entries nothing.
_ONE, _ONE_WITH_HEADERS = (
    f"INSERT INTO lrq_log_entries {columns} VALUES ({SLOT}, %s, %s, {_INLINE}, %s, %s, %s, %s{mark}) "  # noqa: S608 - constants
    f"RETURNING xid, {_SITE}, {IS_SILENT}, {_LINK_CHANGE}, {_TABLES}, slot, destinations IS NULL"
    for columns, mark in ((_COLUMNS, ""), (_WITH_HEADERS, ", %s"))
)
# Inserts nothing if the search path has changed to other tables.
_ANOTHER, _ANOTHER_WITH_HEADERS = (
    f"INSERT INTO lrq_log_entries {columns} SELECT %s, %s, %s, NULL, %s, %s, %s, %s{mark} WHERE {_TABLES} = %s"
    for columns, mark in ((_COLUMNS, ""), (_WITH_HEADERS, ", %s"))
)
_WRITTEN = f"SELECT pg_current_xact_id()::text::bigint, {_SITE}, {IS_SILENT}, {_LINK_CHANGE}"
_ENTRIES = log_entries.name


def _all_written(statement: str) -> str:
    """Return the statement that inserts as *statement* does, and fails unless all of %s rows are written."""
    are_stored = failing_unless("count(*) = %s", _ENTRIES)
    return f"WITH written AS ({statement} RETURNING 1) {_WRITTEN} FROM written HAVING {are_stored} = 1"


# Arrays are sent in binary, because text would double the size of payloads. `unnest` keeps the order.
_ALIKE = _all_written(
    f"INSERT INTO lrq_log_entries {_COLUMNS} "  # noqa: S608 - constants
    f"SELECT {SLOT}, %s, %s, {_INLINE}, NULL, NULL, %s, n.payload FROM unnest(%b::bytea[]) AS n (payload)"
)


def _many(types: dict[str, str], item_key: str, partition_key: str, headers: str = "") -> str:
    """Return the statement that inserts entries of several sets; *types* are the columns that differ per entry."""
    arrays = ", ".join(f"%b::{kind}[]" for kind in types.values())
    return _all_written(
        f"INSERT INTO lrq_log_entries {_WITH_HEADERS if headers else _COLUMNS} "  # noqa: S608 - constants
        f"SELECT {SLOT}, %s, n.tag_set, CASE WHEN n.tag_set = ANY(ARRAY("
        "SELECT number FROM lrq_tag_sets WHERE shared AND number = ANY(%b::bigint[]))) "
        f"THEN NULL ELSE n.destinations END, {item_key}, {partition_key}, %s, n.payload{headers} "
        f"FROM unnest({arrays}) AS n ({', '.join(types)})"
    )


_SETS = {"tag_set": "bigint", "destinations": "text", "payload": "bytea"}
_MIXED = _many(_SETS, "NULL", "NULL")
_KEYS = {"item_key": "text", "partition_key": "text"}
_KEYED = _many(_SETS | _KEYS, "n.item_key", "n.partition_key")
_MANY_WITH_HEADERS = _many(_SETS | _KEYS | {"headers": "text"}, "n.item_key", "n.partition_key", ", n.headers")


@dataclass(frozen=True, slots=True)
class _Begun:
    """Results of the first call in a transaction, which make its later calls cheaper."""

    written: Written
    tables: int
    partition: int
    # Numbers of shared sets, which the dictionary never deletes.
    shared: set[int] = field(default_factory=set)


# By transaction or savepoint, because the rollback of a savepoint undoes the effects of the calls inside.
_begun: WeakKeyDictionary[Transaction, _Begun] = WeakKeyDictionary()
# By branch. Other branches of this process belong to other databases or to its past.
_timelines: dict[str, str] = {}
_MOST_BRANCHES = 256


def write(connection: Connection, client: str, entries: Sequence[NewEntry], created_us: int) -> Written:
    """Insert *entries* in the caller's transaction; raise `NotInTransactionError` on a connection in autocommit.

    Raises `LinkEndedError`, and `SetupError` if a trigger of others leaves entries out. An end of a link waits for
    every transaction that has made a call, with all its entries.
    """
    begun = _find(connection) if len(entries) == 1 else None
    if begun is not None and _write_another(connection, begun, client, entries[0], created_us):
        return begun.written
    return _write_first(connection, client, entries, created_us)


def _find(connection: Connection) -> _Begun | None:
    root, savepoint = connection.get_transaction(), connection.get_nested_transaction()
    found = None if root is None else _begun.get(root)
    return found or (None if savepoint is None else _begun.get(savepoint))


def _write_another(connection: Connection, begun: _Begun, client: str, entry: NewEntry, created_us: int) -> bool:
    """Insert *entry* into the same segment as earlier entries of the transaction; return whether that worked."""
    number, keys = entry.destinations.number, (entry.item_key, entry.partition_key)
    values = (begun.partition, client, number, *keys, created_us, entry.payload)
    if entry.headers is None:
        return number in begun.shared and run(connection, _ANOTHER, (*values, begun.tables)) > 0
    return number in begun.shared and run(connection, _ANOTHER_WITH_HEADERS, (*values, entry.headers, begun.tables)) > 0


def _write_first(connection: Connection, client: str, entries: Sequence[NewEntry], created_us: int) -> Written:
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise NotInTransactionError(
            "transmit needs a transaction, but this connection commits every statement by itself: "
            "use a connection without autocommit"
        )
    if not connection.in_transaction():
        connection.begin()
    with telling(_ENTRIES):
        rows = fetch(connection, *_statement(client, entries, created_us))
    require_stored(_ENTRIES, len(rows), 1)
    ((xid, words, may_be_silent, link_change, *stored),) = rows
    confirm_links(connection, client, entries, link_change)
    # PostgreSQL cannot prepare a transaction with a NOTIFY.
    if not may_be_silent and not isinstance(connection.get_transaction(), TwoPhaseTransaction):
        fetch(connection, NOTIFY, ())
    site, branch, timeline = words.split("\t")
    written = Written(site, branch, xid, "" if _timeline(connection, branch) in ("", timeline) else timeline)
    within = connection.get_nested_transaction() or connection.get_transaction()
    if stored and within is not None:
        tables, partition, is_shared = stored
        begun = _begun.get(within)
        if begun is None or begun.tables != tables:
            begun = _begun[within] = _Begun(written, tables, partition)
        if is_shared:
            begun.shared.add(entries[0].destinations.number)
    return written


def _timeline(connection: Connection, branch: str) -> str:
    """Return the timeline of a branch, which never changes; empty if the branch has none."""
    if branch not in _timelines:
        if len(_timelines) >= _MOST_BRANCHES:
            _timelines.clear()
        found = fetch(connection, "SELECT incarnation FROM lrq_branches WHERE branch = %s", (branch,))
        _timelines[branch] = timeline_of(found[0][0]) if found else ""
    return _timelines[branch]


def _statement(client: str, entries: Sequence[NewEntry], created_us: int) -> tuple[str, Sequence[object]]:
    only = entries[0]
    number, text = only.destinations
    if len(entries) == 1:
        keys = (only.item_key, only.partition_key)
        values = (client, number, number, text, *keys, created_us, only.payload)
        return (_ONE, values) if only.headers is None else (_ONE_WITH_HEADERS, (*values, only.headers))
    sets = {entry.destinations.number for entry in entries}
    payloads = [entry.payload for entry in entries]
    is_plain = not any(entry.item_key or entry.partition_key or entry.headers for entry in entries)
    count = len(entries)
    if len(sets) == 1 and is_plain:
        return _ALIKE, (client, number, number, text, created_us, payloads, count)
    columns = [entry.destinations.number for entry in entries], [entry.destinations.text for entry in entries], payloads
    if is_plain:
        return _MIXED, (client, list(sets), created_us, *columns, count)
    item_keys, partition_keys = [entry.item_key for entry in entries], [entry.partition_key for entry in entries]
    keyed = (client, list(sets), created_us, *columns, item_keys, partition_keys)
    headers = [entry.headers for entry in entries]
    return (_MANY_WITH_HEADERS, (*keyed, headers, count)) if any(headers) else (_KEYED, (*keyed, count))
