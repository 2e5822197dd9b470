"""What a run of trim would do with each segment of the log-entry queue, and why. Changes nothing."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Column, Connection, Engine, Table, func, select, text

from queues.browse.entries import COUNTED, Count
from queues.dialects import postgresql_segments, sqlite_log
from queues.log.port import Owed, Retention
from queues.log.segments import Verdict
from queues.tables import SLOTS, log_entries, log_head, sqlite_segments
from queues.transactions import reading

#: Beyond this everything is.
_NOTHING_KEPT: Final = Retention(0.0, 0)


class Fate(StrEnum):
    """What becomes of a segment."""

    #: Everyone has what is in it.
    FREE = "may go"
    #: It is beyond retention; those who lack something of it need a full snapshot.
    LOST = "beyond retention"
    #: Some destination does not have all of it yet.
    KEPT = "kept"
    #: An older one is kept, and they go in their order.
    BEHIND = "behind one that is kept"
    #: Not all of it is in a tick yet.
    OPEN = "not in a tick yet"
    #: It is being written to.
    CURRENT = "current"


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """One segment that has rows; `lacking` names the sessions that do not have all of it.

    A segment that is kept though no session lacks anything of it is kept for destinations without a session.
    """

    slot: int
    fate: Fate
    rows: Count
    oldest_us: int
    lacking: tuple[Owed, ...]


def plan(engine: Engine, retention: Retention) -> list[SegmentPlan]:
    """Return the segments that have rows, oldest first, with what trim would do now."""
    with reading(engine, snapshot=True) as connection:
        current = _current(connection)
        order = [(current + step) % SLOTS for step in range(1, SLOTS)]
        found: list[SegmentPlan] = []
        is_held_up = False
        for slot in [*order, current]:
            fate, lacking = (Fate.CURRENT, ()) if slot == current else _fate(connection, slot, retention)
            if is_held_up and fate in (Fate.FREE, Fate.LOST):
                fate = Fate.BEHIND
            count, oldest_us = _content(connection, slot)
            if count.entries:
                is_held_up = is_held_up or fate not in (Fate.FREE, Fate.LOST)
                found.append(SegmentPlan(slot, fate, count, oldest_us, lacking))
        return found


def _fate(connection: Connection, slot: int, retention: Retention) -> tuple[Fate, tuple[Owed, ...]]:
    if not _content(connection, slot)[0].entries:
        return Fate.FREE, ()
    at_worst = _verdict(connection, slot, _NOTHING_KEPT)
    if at_worst is None:
        return Fate.OPEN, ()
    now = _verdict(connection, slot, retention)
    if now is None:
        return Fate.KEPT, at_worst.laggards
    return (Fate.LOST if now.laggards else Fate.FREE), now.laggards


def _verdict(connection: Connection, slot: int, retention: Retention) -> Verdict | None:
    if connection.dialect.name == "sqlite":
        return sqlite_log.verdict(connection, slot, retention)
    return postgresql_segments.verdict(connection, slot, retention)


def _current(connection: Connection) -> int:
    if connection.dialect.name == "sqlite":
        return int(connection.execute(select(log_head.c.slot)).scalar_one())
    segment = connection.execute(text("SELECT last_value FROM lrq_log_segment")).scalar_one()
    return int(segment) % SLOTS


def _content(connection: Connection, slot: int) -> tuple[Count, int]:
    """Count the rows of a segment, up to a limit, and tell when the first one was written."""
    table: Table = log_entries
    order: Column[Any] = log_entries.c.xid
    chosen = select(log_entries.c.created_us).where(log_entries.c.slot == slot)
    if connection.dialect.name == "sqlite":
        table, order = sqlite_segments[slot], sqlite_segments[slot].c.id
        chosen = select(table.c.created_us)
    some = chosen.limit(COUNTED + 1).subquery()
    count = connection.execute(select(func.count()).select_from(some)).scalar_one()
    oldest = connection.execute(chosen.order_by(order).limit(1)).scalar()
    return Count(min(count, COUNTED), is_least=count > COUNTED), oldest or 0
