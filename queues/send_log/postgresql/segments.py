"""Begin and trim the segments of PostgreSQL's send log."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlalchemy import Connection, Select, select

from queues.database.postgresql.truncation import lock
from queues.database.tables.log import PARTITIONS, log_entries
from queues.positions import Visibility
from queues.send_log import partitions, segments
from queues.send_log.port import Retention, SessionKey
from queues.send_log.postgresql import unordered
from queues.send_log.postgresql.reads import count_owed, owes
from queues.send_log.postgresql.windows import NOTHING
from queues.send_log.rotation import SegmentLimits

# Rows with transaction ids of the future do not count. Such rows were copied from another database; no tick holds them.
_UNCOVERED = """
    SELECT 1 FROM lrq_log_entries_{partition}
    WHERE (xid >= %s OR xid = ANY(%s)) AND xid < pg_snapshot_xmax(pg_current_snapshot())::text::bigint LIMIT 1
"""

# `nextval` writes up to 32 numbers ahead. After a crash the sequence goes on there, which may be an earlier partition.
# `setval` writes the number itself.
_NEXT = "SELECT setval('lrq_log_segment', last_value + 1) FROM lrq_log_segment"


@dataclass(frozen=True, slots=True)
class Emptied:
    """The result of trimming a segment: the sessions that lost entries, and the number of unordered entries.

    `unknown` counts the entries that unknown destinations have lost.
    """

    laggards: tuple[SessionKey, ...]
    unordered: int
    unknown: Mapping[SessionKey, int]


def current(connection: Connection) -> int:
    """Return the partition of the current segment."""
    return int(connection.exec_driver_sql("SELECT last_value FROM lrq_log_segment").scalar_one()) % PARTITIONS


def keep(connection: Connection) -> None:
    """Wait for a trim that has judged a segment, and let no other one judge before the transaction ends."""
    # The mode of a writer: a trim excludes writers before its last verdict.
    connection.exec_driver_sql("LOCK TABLE lrq_log_entries IN ROW EXCLUSIVE MODE")


def written(partition: int) -> Select[int]:
    """Return a query for the times of the entries of a segment, oldest transaction first."""
    return select(log_entries.c.created_us).where(log_entries.c.slot == partition).order_by(log_entries.c.xid)


def rotate(connection: Connection, limits: SegmentLimits, retention: Retention | None) -> bool:
    """See `queues.send_log.port.Log.rotate`. A database sequence holds the current segment: reading needs no lock."""
    if not partitions.may_rotate(connection, current(connection), limits, retention, _newest_first):
        return False
    segment = connection.exec_driver_sql(_NEXT).scalar_one()
    segments.open_segment(connection, segment)
    return True


def _newest_first(partition: int) -> Select[int]:
    return written(partition).order_by(None).order_by(log_entries.c.xid.desc())


def trim_one(connection: Connection, retention: Retention) -> Emptied | None:
    """Trim the oldest segment with rows; None if there is none or it must be kept."""
    partition = partitions.oldest_filled(connection, current(connection))
    return None if partition is None else _empty(connection, partition, retention)


def _empty(connection: Connection, partition: int, retention: Retention) -> Emptied | None:
    """Trim one segment; None if it must be kept."""
    found = verdict(connection, partition, retention)
    if found is None or found.is_held:
        if found is not None and not unordered.is_recorded(connection):
            unordered.recount(connection)
        return None
    tables = f"lrq_log_entries_{partition}", f"lrq_log_commits_{partition}"
    # SHARE excludes writers during the second verdict, while readers continue.
    lock(connection, *tables, mode="SHARE")
    found = verdict(connection, partition, retention)
    if found is None or found.is_held:
        return None
    dropped = unordered.count(connection, partition) if found.has_unordered else {}
    unordered.record_dropped(connection, dropped)
    lock(connection, *tables)
    unknown = segments.let_go(connection, found, lambda *bounds: count_owed(connection, *bounds))
    connection.exec_driver_sql(f"TRUNCATE {', '.join(tables)}")
    return Emptied(found.laggards, sum(dropped.values()), unknown)


def verdict(connection: Connection, partition: int, retention: Retention) -> segments.Verdict | None:
    """Decide about one segment with rows; None while ticks or sessions need the segment.

    Unordered entries keep a segment until retention ends (`is_held`). The search for them is slow, so it comes last.
    """
    upto = segments.full_tick_covering(connection, lambda mark: _covers_all(connection, partition, mark))
    if upto is None:
        return None
    sets = connection.exec_driver_sql(f"SELECT DISTINCT tag_set FROM lrq_log_entries_{partition}").scalars().all()  # noqa: S608
    found = segments.judge(connection, upto, sets, lambda *bounds: owes(connection, *bounds), retention)
    if found is None or not unordered.has_any(connection, partition):
        return found
    return replace(found, has_unordered=True, is_held=not segments.is_beyond(connection, upto, retention))


def _covers_all(connection: Connection, partition: int, mark: Visibility) -> bool:
    window = mark.window or NOTHING
    uncovered = connection.exec_driver_sql(
        _UNCOVERED.format(partition=partition), (window.xmax, sorted(window.running))
    )
    return uncovered.first() is None
