"""Begins and empties the segments of PostgreSQL's log-entry queue."""

from sqlalchemy import Connection

from queues.dialects.postgresql_emptying import lock
from queues.dialects.postgresql_reading import owes
from queues.dialects.postgresql_windows import NOTHING
from queues.log import segments
from queues.log.port import Owed, Retention
from queues.positions import Mark
from queues.tables import SLOTS

_UNCOVERED = "SELECT 1 FROM lrq_log_entries_{slot} WHERE xid >= %s OR xid = ANY(%s) LIMIT 1"


def rotate(connection: Connection, segment_bytes: int, segment_seconds: float) -> bool:
    """See `queues.log.port.Log.rotate`. The sequence is the state, so that clients read it without a lock."""
    current = connection.exec_driver_sql("SELECT last_value FROM lrq_log_segment").scalar_one()
    due = segments.segment_is_due(connection, segment_bytes, segment_seconds)
    if not due or _is_empty(connection, current % SLOTS) or not _is_empty(connection, (current + 1) % SLOTS):
        return False
    segment = connection.exec_driver_sql("SELECT nextval('lrq_log_segment')").scalar_one()
    segments.open_segment(connection, segment)
    return True


def _is_empty(connection: Connection, slot: int) -> bool:
    found = connection.exec_driver_sql(f"SELECT 1 FROM lrq_log_entries_{slot} LIMIT 1")  # noqa: S608 - a number
    return found.first() is None


def trim_one(connection: Connection, retention: Retention) -> tuple[Owed, ...] | None:
    """Empty the oldest segment that has rows, if that is allowed; return the laggards, or None."""
    current = connection.exec_driver_sql("SELECT last_value FROM lrq_log_segment").scalar_one()
    for step in range(1, SLOTS):
        slot = (current + step) % SLOTS
        if not _is_empty(connection, slot):
            return _empty(connection, slot, retention)
    return None


def _empty(connection: Connection, slot: int, retention: Retention) -> tuple[Owed, ...] | None:
    """Empty one segment if all it holds may go."""
    if verdict(connection, slot, retention) is None:
        return None
    tables = f"lrq_log_entries_{slot}", f"lrq_log_commits_{slot}"
    lock(connection, *tables)
    found = verdict(connection, slot, retention)
    if found is None:
        return None
    segments.let_go(connection, found)
    connection.exec_driver_sql(f"TRUNCATE {', '.join(tables)}")
    return found.laggards


def verdict(connection: Connection, slot: int, retention: Retention) -> segments.Verdict | None:
    """Decide about one segment that has rows; None while it must be kept."""
    upto = segments.full_tick_covering(connection, lambda mark: _covers_all(connection, slot, mark))
    if upto is None:
        return None
    sets = connection.exec_driver_sql(f"SELECT DISTINCT tag_set FROM lrq_log_entries_{slot}").scalars().all()  # noqa: S608
    return segments.judge(connection, upto, sets, lambda *bounds: owes(connection, *bounds), retention)


def _covers_all(connection: Connection, slot: int, mark: Mark) -> bool:
    window = mark.window or NOTHING
    uncovered = connection.exec_driver_sql(_UNCOVERED.format(slot=slot), (window.xmax, sorted(window.running)))
    return uncovered.first() is None
