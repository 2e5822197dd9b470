"""The transactions of an earlier timeline that a promoted PostgreSQL database has kept."""

from typing import Final

from sqlalchemy import Connection

from queues.lineage import inheritance
from queues.positions import PgSnapshot, Tick, Visibility
from queues.send_log.postgresql.windows import NOTHING

# More transactions without a tick count as lost for tokens only; their entries are sent.
_MOST: Final = 100_000
_SURVIVORS: Final = """
    SELECT xid FROM lrq_log_commits
    WHERE (xid >= %(first)s OR xid = ANY(%(running)s)) AND (timeline IS NULL OR timeline = %(timeline)s)
    ORDER BY xid LIMIT %(most)s
"""


def inherited_since(connection: Connection, newest: Tick | None, timeline: str) -> PgSnapshot:
    """Return the transactions of *timeline* and before that are in this database; *newest* is its newest tick."""
    mark = Visibility.parse(newest.mark) if newest else Visibility()
    last = (mark.window if mark.upto is None else mark.base) or NOTHING
    values = {"first": last.xmax, "running": sorted(last.running), "timeline": timeline, "most": _MOST}
    return inheritance(last, connection.exec_driver_sql(_SURVIVORS, values).scalars())
