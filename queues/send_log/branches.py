"""The branches of the log. The functions need the caller's transaction; `void_restored` needs one with one snapshot."""

import secrets
import uuid
from typing import NamedTuple

from sqlalchemy import Connection, insert, select, update

from queues.clock import now_us
from queues.database.leases import Lease
from queues.database.left_out import remove_all, require_none, require_stored
from queues.database.tables.log import log_commits, log_entries, log_head
from queues.database.tables.sessions import sessions
from queues.database.tables.site import branches, site
from queues.database.tables.ticks import ticks
from queues.positions import PgSnapshot, Tick, Visibility
from queues.send_log.ticks import partition_of


class BranchRow(NamedTuple):
    """A branch, which begins after `start_seq`; `incarnation` identifies the database that began the branch."""

    number: int
    branch: str
    start_seq: int
    incarnation: str


def newest_branch(connection: Connection) -> BranchRow:
    """Return the branch with the highest number."""
    columns = [branches.c[name] for name in BranchRow._fields]
    newest = select(*columns).order_by(branches.c.number.desc()).limit(1)
    return BranchRow(*connection.execute(newest).one())


def begin_branch(connection: Connection, number: int, start_seq: int, incarnation: str, inherited: str) -> str:
    """Begin a new branch, which numbers the log from now on; return the branch's name.

    *inherited*: see `queues.lineage.BranchOrigin`.
    """
    branch = uuid.uuid4().hex
    connection.execute(
        insert(branches).values(
            number=number,
            branch=branch,
            start_seq=start_seq,
            incarnation=incarnation,
            created_us=now_us(),
            inherited=inherited,
        )
    )
    require_stored(site.name, connection.execute(update(site).values(branch=branch)).rowcount, 1)
    return branch


def void_restored(connection: Connection, lease: Lease, branch: str, newest: Tick | None, end: int) -> None:
    """Replace all ticks of a restored PostgreSQL database by one, the first of *branch*; reading begins after it.

    Every session loses the restored entries and needs a full snapshot.
    """
    window = PgSnapshot.parse(str(connection.exec_driver_sql("SELECT pg_current_snapshot()::text").scalar_one()))
    # Rows with transaction ids of the future would count as new when this cluster reaches these ids.
    for table in (log_entries, log_commits):
        ahead = (table.c.xid >= window.xmax) | table.c.xid.in_(sorted(window.running))
        remove_all(connection, table, ahead)
    # The tick has one sequence number without an entry, so that even an up-to-date sink's position is before its end.
    number = newest.number + 1 if newest else 1
    remove_all(connection, ticks)
    connection.execute(
        insert(ticks).values(
            number=number,
            slot=partition_of(number),
            uid=secrets.randbits(62),
            generation=lease.generation,
            branch=branch,
            start_seq=end,
            end_seq=end + 1,
            bytes_total=newest.bytes_total if newest else 0,
            is_large=False,
            mark=str(Visibility(window=window)),
            created_us=now_us(),
        )
    )
    connection.execute(update(log_head).values(trimmed_seq=end + 1))
    require_none(connection, log_head, log_head.c.trimmed_seq != end + 1)
    connection.execute(update(sessions).values(lost_seq=end + 1))
    require_none(connection, sessions, sessions.c.lost_seq != end + 1)
