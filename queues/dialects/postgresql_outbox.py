"""Writing entries on PostgreSQL: one statement, no lock, no NOTIFY (DESIGN 2 and 3)."""

from collections.abc import Sequence

from sqlalchemy import Connection

from queues.errors import NotInTransactionError
from queues.log.outbox import NewEntry, Written
from queues.tables import SLOTS

# The set's text is sent with every call and stored only while the dictionary does not have it: no cache at the
# client can be stale, and no race inside the application's transaction can be lost.
_COLUMNS = "(slot, client, tag_set, destinations, item_key, partition_key, created_us, payload)"
_SLOT = f"(SELECT (last_value %% {SLOTS})::smallint FROM lrq_log_segment)"  # noqa: S608 - a constant
_ONE = (
    f"INSERT INTO lrq_log_entries {_COLUMNS} VALUES ({_SLOT}, %s, %s, "  # noqa: S608 - constants
    "CASE WHEN EXISTS (SELECT 1 FROM lrq_tag_sets WHERE number = %s AND shared) THEN NULL ELSE %s END, "
    "%s, %s, %s, %s) RETURNING xid, (SELECT site_id FROM lrq_site), (SELECT branch FROM lrq_site)"
)
# Arrays go in binary: as text every payload would be twice as long.
_MANY = (
    f"WITH written AS (INSERT INTO lrq_log_entries {_COLUMNS} "  # noqa: S608 - constants
    f"SELECT {_SLOT}, %s, n.tag_set, CASE WHEN s.number IS NULL THEN n.destinations END, "
    "n.item_key, n.partition_key, %s, n.payload "
    "FROM unnest(%b::bigint[], %b::text[], %b::text[], %b::text[], %b::bytea[]) WITH ORDINALITY "
    "AS n (tag_set, destinations, item_key, partition_key, payload, ord) "
    "LEFT JOIN lrq_tag_sets s ON s.number = n.tag_set AND s.shared "
    "ORDER BY n.ord) SELECT pg_current_xact_id()::text::bigint, site_id, branch FROM lrq_site"
)


def write(connection: Connection, client: str, entries: Sequence[NewEntry], created_us: int) -> Written:
    """Insert *entries* in the caller's transaction."""
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise NotInTransactionError(
            "transmit needs a transaction, but this connection commits every statement by itself"
        )
    if len(entries) == 1:
        only = entries[0]
        number, text = only.destinations
        values: tuple[object, ...] = (
            client, number, number, text, only.item_key, only.partition_key, created_us, only.payload,
        )  # fmt: skip
        row = connection.exec_driver_sql(_ONE, values).one()
    else:
        columns = (
            [entry.destinations.number for entry in entries],
            [entry.destinations.text for entry in entries],
            [entry.item_key for entry in entries],
            [entry.partition_key for entry in entries],
            [entry.payload for entry in entries],
        )
        row = connection.exec_driver_sql(_MANY, (client, created_us, *columns)).one()
    xid, site, branch = row
    return Written(site, branch, xid)
