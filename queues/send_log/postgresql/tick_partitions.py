"""The partitions of ticks on PostgreSQL, which are truncated whole, so that no tick leaves a dead row."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, func, insert, select

from queues.database.postgresql.truncation import lock
from queues.database.tables.ticks import TICK_PARTITIONS, ticks
from queues.send_log import segments
from queues.send_log.ticks import partition_of

#: Selects the newest number in each partition, in one statement, because a quiet server asks every few seconds.
NEWEST: Final = "SELECT " + ", ".join(  # noqa: S608 - numbers
    f"(SELECT max(number) FROM lrq_ticks_{each})"  # noqa: S608 - numbers
    for each in range(TICK_PARTITIONS)
)
#: Selects the trimmed sequence, and the number of the tick there, which is always kept: the next tick begins there.
LAST_TRIMMED: Final = (
    "SELECT trimmed_seq, (SELECT number FROM lrq_ticks WHERE end_seq <= trimmed_seq ORDER BY end_seq DESC LIMIT 1)"
    " FROM lrq_log_head"
)


def oldest_kept(last_trimmed: int | None) -> int:
    """Return the oldest tick that is kept, for the number of the last trimmed one; None if no tick is trimmed. Pure."""
    return 0 if last_trimmed is None else last_trimmed - segments.KEPT_TICKS


def is_old(newest: int | None, kept_from: int) -> bool:
    """Tell whether all ticks of a partition are before *kept_from*; False without ticks. Pure."""
    return newest is not None and newest < kept_from


def empty_one(connection: Connection) -> bool:
    """Truncate one partition whose ticks are all past retention; return False if there is none.

    Ticks at acknowledged positions of sessions move to the partition of the newest tick.
    """
    _trimmed_seq, last_trimmed = connection.exec_driver_sql(LAST_TRIMMED).one()
    kept_from = oldest_kept(last_trimmed)
    for partition, newest in enumerate(_newest(connection)):
        if is_old(newest, kept_from):
            lock(connection, f"lrq_ticks_{partition}")
            # Another transaction may have inserted a tick before the lock.
            if is_old(_newest(connection)[partition], kept_from):
                _empty(connection, partition)
                return True
    return False


def _newest(connection: Connection) -> Sequence[int | None]:
    return connection.exec_driver_sql(NEWEST).one()


def _empty(connection: Connection, partition: int) -> None:
    newest = connection.execute(select(func.max(ticks.c.number))).scalar_one()
    stood_at = ticks.c.number.in_(segments.acknowledged(connection))
    moved: list[dict[str, Any]] = [
        {**row, "slot": partition_of(newest)}
        for row in connection.execute(select(ticks).where(ticks.c.slot == partition, stood_at)).mappings()
    ]
    connection.exec_driver_sql(f"TRUNCATE lrq_ticks_{partition}")
    if moved:
        connection.execute(insert(ticks), moved)
