"""The slots of ticks on PostgreSQL: emptied whole, so that no tick leaves a dead row."""

from typing import Any

from sqlalchemy import Connection, func, insert, select

from queues.dialects.postgresql_emptying import lock
from queues.log import segments
from queues.log.sql import trimmed_seq
from queues.log.tick_slots import slot_of
from queues.tables import TICK_SLOTS, ticks


def empty_one(connection: Connection) -> bool:
    """Empty a slot all of whose ticks are as far behind the trimmed ones as none is kept; tell whether there was one.

    Those at which sessions stand move to the slot of the newest one, which is kept.
    """
    oldest_kept = _oldest_kept(connection)
    for slot in range(TICK_SLOTS):
        if _is_before(connection, slot, oldest_kept):
            lock(connection, f"lrq_ticks_{slot}")
            # Somebody may have written to it until now.
            if _is_before(connection, slot, oldest_kept):
                _empty(connection, slot)
                return True
    return False


def _oldest_kept(connection: Connection) -> int:
    trimmed = select(ticks.c.number).where(ticks.c.end_seq <= trimmed_seq(connection))
    number = connection.execute(trimmed.order_by(ticks.c.end_seq.desc()).limit(1)).scalar()
    # The last one that is trimmed stays, because the next one is read from where it ends.
    return 0 if number is None else number - segments.KEPT_TICKS


def _is_before(connection: Connection, slot: int, number: int) -> bool:
    newest = connection.exec_driver_sql(f"SELECT max(number) FROM lrq_ticks_{slot}").scalar()  # noqa: S608
    return newest is not None and newest < number


def _empty(connection: Connection, slot: int) -> None:
    newest = connection.execute(select(func.max(ticks.c.number))).scalar_one()
    stood_at = ticks.c.number.in_(segments.acknowledged(connection))
    moved: list[dict[str, Any]] = [
        {**row, "slot": slot_of(newest)}
        for row in connection.execute(select(ticks).where(ticks.c.slot == slot, stood_at)).mappings()
    ]
    connection.exec_driver_sql(f"TRUNCATE lrq_ticks_{slot}")
    if moved:
        connection.execute(insert(ticks), moved)
