"""Writing entries on PostgreSQL: one statement, no lock that waits, NOTIFY only for a server that dozes (DESIGN 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Transaction, TwoPhaseTransaction

from queues.dialects.postgresql import fetch, run
from queues.dialects.postgresql_bell import MAY_BE_SILENT, TELL
from queues.errors import NotInTransactionError
from queues.log.outbox import NewEntry, Written
from queues.tables import SLOTS

# The set's text is sent along and stored only while the dictionary does not have it: no cache at the client can be
# stale, and no race inside the application's transaction can be lost.
_COLUMNS = "(slot, client, tag_set, destinations, item_key, partition_key, created_us, payload)"
_SLOT = f"(SELECT (last_value %% {SLOTS})::smallint FROM lrq_log_segment)"  # noqa: S608 - a constant
# One look at the site brings both of its words; neither can contain the character between them.
_SITE = "(SELECT site_id || chr(9) || branch FROM lrq_site)"
# Tells one set of tables from another in the same database.
_TABLES = "'lrq_site'::regclass::oid::bigint"
_INLINE = "CASE WHEN EXISTS (SELECT 1 FROM lrq_tag_sets WHERE number = %s AND shared) THEN NULL ELSE %s END"
_ONE = (
    f"INSERT INTO lrq_log_entries {_COLUMNS} VALUES ({_SLOT}, %s, %s, {_INLINE}, %s, %s, %s, %s) "  # noqa: S608 - constants
    f"RETURNING xid, {_SITE}, {MAY_BE_SILENT}, {_TABLES}, slot, destinations IS NULL"
)
# Nothing, where the search path leads to other tables by now.
_ANOTHER = f"INSERT INTO lrq_log_entries {_COLUMNS} SELECT %s, %s, %s, NULL, %s, %s, %s, %s WHERE {_TABLES} = %s"
_WRITTEN = f"SELECT pg_current_xact_id()::text::bigint, {_SITE}, {MAY_BE_SILENT}"
# Arrays go in binary: as text every payload would be twice as long. `unnest` keeps their order.
_ALIKE = (
    f"WITH written AS (INSERT INTO lrq_log_entries {_COLUMNS} "  # noqa: S608 - constants
    f"SELECT {_SLOT}, %s, %s, {_INLINE}, NULL, NULL, %s, n.payload FROM unnest(%b::bytea[]) AS n (payload)) {_WRITTEN}"
)


def _many(types: dict[str, str], item_key: str, partition_key: str) -> str:
    """Return the statement that inserts entries of several sets; *types* are those of what differs between them."""
    arrays = ", ".join(f"%b::{kind}[]" for kind in types.values())
    return (
        f"WITH written AS (INSERT INTO lrq_log_entries {_COLUMNS} "  # noqa: S608 - constants
        f"SELECT {_SLOT}, %s, n.tag_set, CASE WHEN n.tag_set = ANY(ARRAY("
        "SELECT number FROM lrq_tag_sets WHERE shared AND number = ANY(%b::bigint[]))) "
        f"THEN NULL ELSE n.destinations END, {item_key}, {partition_key}, %s, n.payload "
        f"FROM unnest({arrays}) AS n ({', '.join(types)})) {_WRITTEN}"
    )


_SETS = {"tag_set": "bigint", "destinations": "text", "payload": "bytea"}
_MIXED = _many(_SETS, "NULL", "NULL")
_KEYED = _many(_SETS | {"item_key": "text", "partition_key": "text"}, "n.item_key", "n.partition_key")


@dataclass(frozen=True, slots=True)
class _Begun:
    """What the first call of a transaction has found out, and has seen to, for the calls that follow."""

    written: Written
    tables: int
    slot: int
    # Sets that the dictionary keeps for ever.
    shared: set[int] = field(default_factory=set)


# By transaction or savepoint: what a call inside a savepoint has seen to is gone when that is rolled back.
_begun: WeakKeyDictionary[Transaction, _Begun] = WeakKeyDictionary()


def write(connection: Connection, client: str, entries: Sequence[NewEntry], created_us: int) -> Written:
    """Insert *entries* in the caller's transaction."""
    begun = _find(connection) if len(entries) == 1 else None
    if begun is not None and _write_another(connection, begun, client, entries[0], created_us):
        return begun.written
    return _write_first(connection, client, entries, created_us)


def _find(connection: Connection) -> _Begun | None:
    root, savepoint = connection.get_transaction(), connection.get_nested_transaction()
    found = None if root is None else _begun.get(root)
    return found or (None if savepoint is None else _begun.get(savepoint))


def _write_another(connection: Connection, begun: _Begun, client: str, entry: NewEntry, created_us: int) -> bool:
    """Tell whether *entry* was inserted, as one that goes where others of the transaction went."""
    number, keys = entry.destinations.number, (entry.item_key, entry.partition_key)
    values = (begun.slot, client, number, *keys, created_us, entry.payload, begun.tables)
    return number in begun.shared and run(connection, _ANOTHER, values) > 0


def _write_first(connection: Connection, client: str, entries: Sequence[NewEntry], created_us: int) -> Written:
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise NotInTransactionError(
            "transmit needs a transaction, but this connection commits every statement by itself"
        )
    if not connection.in_transaction():
        connection.begin()
    ((xid, words, may_be_silent, *stored),) = fetch(connection, *_statement(client, entries, created_us))
    # PostgreSQL prepares no transaction that tells.
    if not may_be_silent and not isinstance(connection.get_transaction(), TwoPhaseTransaction):
        fetch(connection, TELL, ())
    site, branch = words.split("\t")
    written = Written(site, branch, xid)
    within = connection.get_nested_transaction() or connection.get_transaction()
    if stored and within is not None:
        tables, slot, is_shared = stored
        begun = _begun.get(within)
        if begun is None or begun.tables != tables:
            begun = _begun[within] = _Begun(written, tables, slot)
        if is_shared:
            begun.shared.add(entries[0].destinations.number)
    return written


def _statement(client: str, entries: Sequence[NewEntry], created_us: int) -> tuple[str, Sequence[object]]:
    only = entries[0]
    number, text = only.destinations
    if len(entries) == 1:
        keys = (only.item_key, only.partition_key)
        return _ONE, (client, number, number, text, *keys, created_us, only.payload)
    sets = {entry.destinations.number for entry in entries}
    payloads = [entry.payload for entry in entries]
    has_keys = any(entry.item_key or entry.partition_key for entry in entries)
    if len(sets) == 1 and not has_keys:
        return _ALIKE, (client, number, number, text, created_us, payloads)
    columns = [entry.destinations.number for entry in entries], [entry.destinations.text for entry in entries], payloads
    if not has_keys:
        return _MIXED, (client, list(sets), created_us, *columns)
    item_keys, partition_keys = [entry.item_key for entry in entries], [entry.partition_key for entry in entries]
    return _KEYED, (client, list(sets), created_us, *columns, item_keys, partition_keys)
