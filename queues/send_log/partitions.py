"""The partitions of the send log, which hold its segments in turn: the part that both SQL dialects share."""

from collections.abc import Callable

from sqlalchemy import Connection, Select

from queues.database.tables.log import PARTITIONS
from queues.send_log import segments
from queues.send_log.port import Retention
from queues.send_log.rotation import SegmentLimits


def is_empty(connection: Connection, partition: int) -> bool:
    """Tell whether a partition has no entries."""
    found = connection.exec_driver_sql(f"SELECT 1 FROM lrq_log_entries_{partition} LIMIT 1")  # noqa: S608 - a number
    return found.first() is None


def oldest_filled(connection: Connection, current: int) -> int | None:
    """Return the partition of the oldest closed segment with entries; None without one."""
    return next((each for each in _after(current) if not is_empty(connection, each)), None)


def may_rotate(
    connection: Connection,
    current: int,
    limits: SegmentLimits,
    retention: Retention | None,
    newest_first: Callable[[int], Select[int]],
) -> bool:
    """Tell whether a new segment may begin after the one in the partition *current*.

    *newest_first* returns a query for the times of the entries in a partition, newest entry first.
    """
    following = _after(current)
    due = segments.segment_is_due(connection, limits)
    if not due or is_empty(connection, current) or not is_empty(connection, following[0]):
        return False
    if retention is None:
        return True
    closed = [newest_first(each) for each in following if not is_empty(connection, each)]
    return segments.has_room(connection, closed, retention)


def _after(current: int) -> list[int]:
    return [(current + step) % PARTITIONS for step in range(1, PARTITIONS)]
