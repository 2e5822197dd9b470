"""The slots of ticks on PostgreSQL: written one after the other, emptied whole, so that no tick leaves a dead row."""

from typing import Any, Final

from sqlalchemy import Connection, insert, select

from queues.dialects.postgresql_emptying import lock
from queues.log import segments
from queues.log.sql import trimmed_seq, upcoming_slot
from queues.tables import TICK_SLOTS, ticks

#: After so many ticks the next slot is taken, if it is empty. Where it is not, because trimming is far behind, the
#: slots become as large as they must.
TICKS_A_SLOT: Final = 4_096


def turn(connection: Connection, number: int) -> int | None:
    """Return the slot that the ticks after *number*, which is the next one, are to go to; None: to where it goes."""
    if number % TICKS_A_SLOT:
        return None
    following = (upcoming_slot(connection) + 1) % TICK_SLOTS
    return following if _newest_in(connection, following) is None else None


def empty_one(connection: Connection) -> bool:
    """Empty a slot all of whose ticks are as far behind the trimmed ones as none is kept; tell whether there was one.

    Those at which sessions stand move to the slot that is written to.
    """
    oldest_kept = _oldest_kept(connection)
    written = upcoming_slot(connection)
    for slot in range(TICK_SLOTS):
        if slot != written and _is_before(connection, slot, oldest_kept):
            lock(connection, f"lrq_ticks_{slot}")
            # Somebody may have written to it until now.
            if _is_before(connection, slot, oldest_kept):
                _empty(connection, slot, written)
                return True
    return False


def _oldest_kept(connection: Connection) -> int:
    trimmed = select(ticks.c.number).where(ticks.c.end_seq <= trimmed_seq(connection))
    number = connection.execute(trimmed.order_by(ticks.c.end_seq.desc()).limit(1)).scalar()
    # The last one that is trimmed stays, because the next one is read from where it ends.
    return 0 if number is None else number - segments.KEPT_TICKS


def _is_before(connection: Connection, slot: int, number: int) -> bool:
    newest = _newest_in(connection, slot)
    return newest is not None and newest < number


def _newest_in(connection: Connection, slot: int) -> int | None:
    newest: int | None = connection.exec_driver_sql(f"SELECT max(number) FROM lrq_ticks_{slot}").scalar()  # noqa: S608
    return newest


def _empty(connection: Connection, slot: int, written: int) -> None:
    stood_at = ticks.c.number.in_(segments.acknowledged(connection))
    moved: list[dict[str, Any]] = [
        {**row, "slot": written}
        for row in connection.execute(select(ticks).where(ticks.c.slot == slot, stood_at)).mappings()
    ]
    connection.exec_driver_sql(f"TRUNCATE lrq_ticks_{slot}")
    if moved:
        connection.execute(insert(ticks), moved)
