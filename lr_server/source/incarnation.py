"""Notice another incarnation of the database: restored, promoted or copied.

A promotion keeps transaction ids and rows. So the log continues on a new branch, and negotiation finds the end of each
sink's common history. A dump and restore begins new transaction ids, so the visibility of older ticks is void. Then
the log begins again after all restored entries, and every session is rebuilt. The same holds after `pg_resetwal`
has put the transaction ids back.

See docs/design.md, "Incarnations".
"""

from typing import Final

from sqlalchemy import Engine

from queues.database import dialects, leases
from queues.database.leases import Lease
from queues.database.servers import renumber
from queues.database.transactions import reading, writing
from queues.lineage import timeline_of
from queues.logs import logger
from queues.send_log.branches import begin_branch, newest_branch, void_restored
from queues.send_log.postgresql.incarnation_check import ids_went_back
from queues.send_log.postgresql.inherited import inherited_since
from queues.send_log.postgresql.windows import NOTHING
from queues.send_log.reads import newest_tick

log = logger("lrq.incarnation")
_IDS_WENT_BACK: Final = (
    "the transaction ids of the cluster went back, as after pg_resetwal: "
    "the log begins again, and each site gets a snapshot"
)


def adopt(engine: Engine, lease: Lease) -> str:
    """Begin a new branch if the database has a new incarnation; return the current branch."""
    # One database snapshot for all statements: they touch only rows that were restored or committed before it.
    with writing(engine, snapshot=True) as connection:
        leases.check(connection, lease)
        last = newest_branch(connection)
        now = dialects.of(connection).incarnation(connection)
        newest = newest_tick(connection)
        went_back = ids_went_back(connection, newest)
        if now == last.incarnation and not went_back:
            return last.branch
        if went_back:
            log.warning("the log begins again", reason=_IDS_WENT_BACK)
        end = newest.end_seq if newest else last.start_seq
        is_restored = went_back or _cluster(now) != _cluster(last.incarnation)
        inherited = NOTHING if is_restored else inherited_since(connection, newest, timeline_of(last.incarnation))
        branch = begin_branch(connection, last.number + 1, end, now, str(inherited))
        renumber(connection)
        if is_restored:
            void_restored(connection, lease, branch, newest, end)
        return branch


def adopted_branch(engine: Engine) -> str | None:
    """Return the current branch; None as long as the sequencer has not adopted the database's incarnation."""
    with reading(engine, snapshot=True) as connection:
        last = newest_branch(connection)
        return last.branch if last.incarnation == dialects.of(connection).incarnation(connection) else None


def _cluster(identity: str) -> tuple[str, str]:
    """Return the parts that a promotion keeps: system identifier and database, without the timeline."""
    system, _, rest = identity.partition("/")
    return system, rest.rpartition("/")[2]
