"""Noticing that the database is another incarnation of itself: restored, promoted or copied (DESIGN 2).

A promotion keeps transaction ids and rows, so the log goes on under a new branch, and negotiation finds out where each
sink left the common history. In a copy made by dump and restore the transaction ids begin anew: what the marks of
older ticks say is void, so the log begins again after everything that was restored, and every session is rebuilt.
"""

import secrets
import uuid

from sqlalchemy import Connection, Engine, delete, insert, select, update

from queues import leases
from queues.clock import now_us
from queues.leases import Lease
from queues.log.sql import newest_tick
from queues.log.tick_slots import slot_of
from queues.migrate import incarnation
from queues.positions import Mark, Snapshot, Tick
from queues.tables import branches, log_commits, log_entries, log_head, sessions, site, ticks
from queues.transactions import keep_rewritten, writing

_ISOLATION = {"sqlite": "SERIALIZABLE", "postgresql": "REPEATABLE READ"}


def adopt(engine: Engine, lease: Lease) -> str:
    """Begin a new branch if the database is another incarnation than it was; return the branch."""
    # One snapshot for all of it: what is seen was restored, or committed before it, and nothing else is touched.
    with writing(engine.execution_options(isolation_level=_ISOLATION[engine.dialect.name])) as connection:
        keep_rewritten(connection)
        leases.check(connection, lease)
        last = connection.execute(select(branches).order_by(branches.c.number.desc()).limit(1)).one()
        now = incarnation(connection)
        if now == last.incarnation:
            return str(last.branch)
        newest = newest_tick(connection)
        end = newest.end_seq if newest else int(last.start_seq)
        branch = _begin_branch(connection, last.number + 1, end, now)
        if _cluster(now) != _cluster(last.incarnation):
            _begin_again(connection, lease, branch, newest, end)
        return branch


def _cluster(identity: str) -> tuple[str, str]:
    """Return what a promotion keeps: the system identifier and the database, without the timeline."""
    system, _, rest = identity.partition("/")
    return system, rest.rpartition("/")[2]


def _begin_branch(connection: Connection, number: int, start_seq: int, identity: str) -> str:
    branch = uuid.uuid4().hex
    connection.execute(
        insert(branches).values(
            number=number, branch=branch, start_seq=start_seq, incarnation=identity, created_us=now_us()
        )
    )
    connection.execute(update(site).values(branch=branch))
    return branch


def _begin_again(connection: Connection, lease: Lease, branch: str, newest: Tick | None, end: int) -> None:
    """Close everything that was restored behind one tick that nobody can read back beyond."""
    window = Snapshot.parse(str(connection.exec_driver_sql("SELECT pg_current_snapshot()::text").scalar_one()))
    # Rows whose transaction ids lie ahead would be taken for new ones when this cluster gets there.
    for table in (log_entries, log_commits):
        ahead = (table.c.xid >= window.xmax) | table.c.xid.in_(sorted(window.running))
        connection.execute(delete(table).where(ahead))
    # One number is spent, so that the position of a sink that had everything is before it as well.
    number = newest.number + 1 if newest else 1
    connection.execute(delete(ticks))
    connection.execute(
        insert(ticks).values(
            number=number,
            slot=slot_of(number),
            uid=secrets.randbits(62),
            generation=lease.generation,
            branch=branch,
            start_seq=end,
            end_seq=end + 1,
            bytes_total=newest.bytes_total if newest else 0,
            is_large=False,
            mark=str(Mark(window=window)),
            created_us=now_us(),
        )
    )
    connection.execute(update(log_head).values(trimmed_seq=end + 1))
    connection.execute(update(sessions).values(lost_seq=end + 1))
