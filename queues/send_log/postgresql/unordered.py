"""Unordered entries of PostgreSQL: their transactions have no place in the order of commits.

No tick holds such entries. A disabled trigger leaves unordered entries, and so do copied rows with foreign transaction
ids. An entry and its place are committed together. So one statement that sees an entry without a place is enough.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection

from queues.clock import now_us
from queues.database.left_out import require_stored
from queues.database.tables.log import PARTITIONS, log_entries
from queues.send_log.postgresql.notify import IS_SILENT, NOTIFY
from queues.send_log.postgresql.windows import IS_AHEAD, plan

_NO_PLACE: Final = "NOT EXISTS (SELECT 1 FROM lrq_log_commits c WHERE c.xid = e.xid)"
_ANY: Final = f"SELECT 1 FROM lrq_log_entries_{{partition}} e WHERE {_NO_PLACE} LIMIT 1"  # noqa: S608 - constants
# Entries of the present transaction do not count, because they get their place at its end.
_COUNT: Final = f"""
    SELECT client, count(*) FROM {{table}} e WHERE {_NO_PLACE} AND xid <> pg_current_xact_id()::text::bigint
    GROUP BY client
"""  # noqa: S608 - constants
# Bounds on both tables limit a run to the transactions since the previous run.
_NEW: Final = """
    SELECT client, count(*) FROM lrq_log_entries e WHERE xid >= %(first)s AND xid < %(end)s AND NOT EXISTS (
      SELECT 1 FROM lrq_log_commits c WHERE c.xid = e.xid AND c.xid >= %(first)s AND c.xid < %(end)s)
    GROUP BY client
"""
#: The settings for a quick `HAS_NEW`.
PLAN: Final = plan()
#: Selects a row for an entry without a place, from the id `first` on, and one for a copied place.
HAS_NEW: Final = f"""
    (SELECT 1 FROM lrq_log_entries e
    WHERE xid >= :first AND xid < (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint) AND NOT EXISTS (
      SELECT 1 FROM lrq_log_commits c WHERE c.xid = e.xid AND c.xid >= :first)
    LIMIT 1) UNION ALL (SELECT 1 FROM lrq_log_commits WHERE {IS_AHEAD} LIMIT 1)
"""  # noqa: S608 - constants
#: Selects the id up to which all transactions have ended.
END: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
# Later a transaction of this database has the id, and its entries would have two places.
_FORGET_COPIED_PLACES: Final = f"""
    WITH gone AS (DELETE FROM lrq_log_commits WHERE {IS_AHEAD} RETURNING xid)
    SELECT client, count(*) FROM lrq_log_entries WHERE xid IN (SELECT xid FROM gone) GROUP BY client
"""  # noqa: S608 - constants
_AHEAD: Final = f"SELECT client, count(*) FROM lrq_log_entries WHERE {IS_AHEAD} GROUP BY client"  # noqa: S608 - constants
_ADD: Final = """
    INSERT INTO lrq_unordered AS u (client, waiting, dropped, seen_us) VALUES (%(client)s, %(count)s, 0, %(now)s)
    ON CONFLICT (client) DO UPDATE SET waiting = u.waiting + excluded.waiting, seen_us = excluded.seen_us
"""
_DROP: Final = """
    INSERT INTO lrq_unordered AS u (client, waiting, dropped, seen_us) VALUES (%(client)s, 0, %(count)s, %(now)s)
    ON CONFLICT (client) DO UPDATE SET waiting = greatest(u.waiting - excluded.dropped, 0),
      dropped = u.dropped + excluded.dropped, seen_us = excluded.seen_us
"""
_KNOWN_SET: Final = "(destinations IS NOT NULL OR tag_set IN (SELECT number FROM lrq_tag_sets WHERE shared))"
# The trigger gives a place to new rows only. One statement deletes and inserts, so each entry is sent exactly once.
_SEND: Final = f"""
    WITH unordered AS (DELETE FROM lrq_log_entries e WHERE {_NO_PLACE} AND {_KNOWN_SET} RETURNING e.*),
    sent AS (INSERT INTO lrq_log_entries (
      slot, client, tag_set, destinations, item_key, partition_key, created_us, payload, headers, request)
    SELECT (SELECT (last_value % {PARTITIONS})::smallint FROM lrq_log_segment), client, tag_set, destinations, item_key,
      partition_key, created_us, payload, headers, request FROM unordered ORDER BY xid, id RETURNING 1)
    SELECT (SELECT count(*) FROM sent), (SELECT count(*) FROM unordered)
"""  # noqa: S608 - constants


def has_any(connection: Connection, partition: int) -> bool:
    """Tell whether a segment holds an unordered entry."""
    return connection.exec_driver_sql(_ANY.format(partition=partition)).first() is not None


def count(connection: Connection, partition: int) -> dict[str, int]:
    """Count the unordered entries of a segment for each client."""
    return _counted(connection, _COUNT.format(table=f"lrq_log_entries_{partition}"))


def find_new(connection: Connection, first: int) -> tuple[int, int]:
    """Record the unordered entries of ended transactions from the id *first* on.

    Return the id for the next run, and the number of entries found. With *first* 0, count all entries from the start.
    Copied places with ids of the future are deleted, so that no tick ever holds their entries.
    """
    end = int(connection.exec_driver_sql(END).scalar_one())
    connection.exec_driver_sql(plan())
    copied = _counted(connection, _FORGET_COPIED_PLACES)
    found = Counter(_counted(connection, _NEW, {"first": first, "end": end}))
    if first == 0:
        connection.exec_driver_sql("UPDATE lrq_unordered SET waiting = 0 WHERE waiting > 0")
        copied = _counted(connection, _AHEAD)
    found.update(copied)
    _record(connection, _ADD, found)
    return end, sum(found.values())


def recount(connection: Connection) -> int:
    """Count the unordered entries of the whole log, even with foreign transaction ids; record and return the number."""
    found = _counted(connection, _COUNT.format(table="lrq_log_entries"))
    connection.exec_driver_sql("UPDATE lrq_unordered SET waiting = 0 WHERE waiting > 0")
    _record(connection, _ADD, found)
    connection.exec_driver_sql("DELETE FROM lrq_unordered WHERE waiting = 0 AND dropped = 0")
    return sum(found.values())


def is_recorded(connection: Connection) -> bool:
    """Tell whether the record has waiting unordered entries."""
    return connection.exec_driver_sql("SELECT 1 FROM lrq_unordered WHERE waiting > 0 LIMIT 1").first() is not None


def record_dropped(connection: Connection, dropped: Mapping[str, int]) -> None:
    """Record the numbers of trimmed unordered entries for each client."""
    _record(connection, _DROP, dropped)


def send(connection: Connection) -> int:
    """Write the unordered entries again in this transaction, which gives them its place; return how many.

    An entry with an unknown destination set stays unordered, because it was copied from another site. Raises
    `SetupError` if a trigger of others leaves out an entry.
    """
    connection.exec_driver_sql(_FORGET_COPIED_PLACES)
    sent, taken = connection.exec_driver_sql(_SEND.replace("%", "%%")).one()
    require_stored(log_entries.name, sent, taken)
    if sent and not connection.exec_driver_sql(f"SELECT {IS_SILENT}").scalar_one():
        connection.exec_driver_sql(NOTIFY)
    recount(connection)
    return int(sent)


def drop(connection: Connection) -> int:
    """Delete the unordered entries, and all records of unordered entries; return how many were deleted."""
    connection.exec_driver_sql(_FORGET_COPIED_PLACES)
    dropped = connection.exec_driver_sql(f"DELETE FROM lrq_log_entries e WHERE {_NO_PLACE}").rowcount  # noqa: S608
    connection.exec_driver_sql("DELETE FROM lrq_unordered")
    return dropped


def _counted(connection: Connection, statement: str, values: Mapping[str, Any] | None = None) -> dict[str, int]:
    found = connection.exec_driver_sql(statement, dict(values or {}))
    return {row["client"]: row["count"] for row in found.mappings()}


def _record(connection: Connection, statement: str, counts: Mapping[str, int]) -> None:
    for client, number in sorted(counts.items()):
        connection.exec_driver_sql(statement, {"client": client, "count": number, "now": now_us()})
