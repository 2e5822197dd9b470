"""The partitions of ticks on PostgreSQL, which are truncated whole, so that no tick leaves a dead row."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, func, insert, select

from queues.database.postgresql.truncation import lock
from queues.database.tables.ticks import TICK_PARTITIONS, ticks
from queues.send_log import segments
from queues.send_log.reads import trimmed_seq
from queues.send_log.ticks import partition_of

# One statement for all, because a quiet server asks every few seconds.
_NEWEST: Final = "SELECT " + ", ".join(  # noqa: S608 - numbers
    f"(SELECT max(number) FROM lrq_ticks_{each})"  # noqa: S608 - numbers
    for each in range(TICK_PARTITIONS)
)


def empty_one(connection: Connection) -> bool:
    """Truncate one partition whose ticks are all past retention; return False if there is none.

    Ticks at acknowledged positions of sessions move to the partition of the newest tick.
    """
    oldest_kept = _oldest_kept(connection)
    for partition, newest in enumerate(_newest(connection)):
        if newest is not None and newest < oldest_kept:
            lock(connection, f"lrq_ticks_{partition}")
            # Another transaction may have inserted a tick before the lock.
            again = _newest(connection)[partition]
            if again is not None and again < oldest_kept:
                _empty(connection, partition)
                return True
    return False


def _oldest_kept(connection: Connection) -> int:
    trimmed = select(ticks.c.number).where(ticks.c.end_seq <= trimmed_seq(connection))
    number = connection.execute(trimmed.order_by(ticks.c.end_seq.desc()).limit(1)).scalar()
    # The last trimmed tick is always kept, because reading the next tick begins at its end.
    return 0 if number is None else number - segments.KEPT_TICKS


def _newest(connection: Connection) -> Sequence[int | None]:
    return connection.exec_driver_sql(_NEWEST).one()


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
