"""The partitions of the send log, which hold its segments in turn: the part that both SQL dialects share."""

from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, Select

from queues.database.tables.log import PARTITIONS
from queues.send_log import segments
from queues.send_log.port import Retention
from queues.send_log.rotation import SegmentLimits

#: Selects the partitions that have entries, in one statement, because a quiet server asks every few seconds.
FILLED: Final = " UNION ALL ".join(
    f"SELECT {each} WHERE EXISTS (SELECT 1 FROM lrq_log_entries_{each})"  # noqa: S608 - numbers
    for each in range(PARTITIONS)
)


def filled(connection: Connection) -> frozenset[int]:
    """Return the partitions that have entries."""
    return frozenset(connection.exec_driver_sql(FILLED).scalars())


def oldest_filled(connection: Connection, current: int) -> int | None:
    """Return the partition of the oldest closed segment with entries; None without one."""
    found = filled(connection)
    return next((each for each in _after(current) if each in found), None)


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
    if not segments.segment_is_due(connection, limits):
        return False
    found = filled(connection)
    if current not in found or following[0] in found:
        return False
    if retention is None:
        return True
    closed = [newest_first(each) for each in following if each in found]
    return segments.has_room(connection, closed, retention)


def _after(current: int) -> list[int]:
    return [(current + step) % PARTITIONS for step in range(1, PARTITIONS)]
