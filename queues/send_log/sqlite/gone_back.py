"""Notice a file that was restored in place: its log lacks a tick that this process has taken or read.

SQLite's backup function may write an older state into a file that a server has open. The ids of lost entries then come
again, so the sequencer would pass over new entries. See docs/design.md, "Incarnations".
"""

from typing import Final

from sqlalchemy import Connection, Engine, select

from queues.database import leases
from queues.database.leases import Lease
from queues.database.servers import renumber
from queues.database.tables.log import log_head
from queues.database.transactions import writing
from queues.errors import OtherIncarnationError
from queues.positions import PgSnapshot, Tick
from queues.send_log.branches import begin_branch, newest_branch
from queues.send_log.reads import newest_tick

_HOLDS: Final = "SELECT 1 FROM lrq_ticks WHERE number = ? AND uid = ?"


def holds(connection: Connection, tick: Tick) -> bool:
    """Return whether the log has *tick*; the newest tick of a log is never trimmed."""
    return connection.exec_driver_sql(_HOLDS, (tick.number, tick.uid)).first() is not None


def begin_again(engine: Engine, lease: Lease, lost: Tick) -> OtherIncarnationError | None:
    """Begin a new branch if the log lacks the tick *lost*; return the error that makes all sessions begin anew.

    Otherwise new entries would get the branch and the numbers of lost ones.
    """
    with writing(engine) as connection:
        leases.check(connection, lease)
        if holds(connection, lost):
            return None
        last, newest = newest_branch(connection), newest_tick(connection)
        end = newest.end_seq if newest else last.start_seq
        after = int(connection.execute(select(log_head.c.last_id)).scalar_one()) + 1
        begin_branch(connection, last.number + 1, end, last.incarnation, str(PgSnapshot(after, after, frozenset())))
        renumber(connection)
        return OtherIncarnationError(lease.name, lease.generation)
