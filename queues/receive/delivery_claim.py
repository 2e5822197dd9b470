"""Lock a receive queue for a listener's step before its marks move.

A listener may commit the transaction itself, and with it all earlier writes. Therefore only a time is written before
the call, and the marks move after it.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select, update

from queues.database import dialects
from queues.database.dialect import Statement
from queues.database.leases import Lease, checking, judge
from queues.database.tables.consumers import consumers
from queues.receive.consumer_marks import Consumed
from queues.receive.consumer_moves import AS_SEEN, as_seen, reaching


def claim(
    connection: Connection,
    queue_id: int,
    lease: Lease,
    seen: Consumed,
    to: Consumed,
    *,
    version: int,
    claimed_us: int,
    back_seq: int,
    received: bool,
    fence: int | None = None,
    then: Sequence[Statement] = (),
) -> bool:
    """Lock the marks if they equal *seen* at *version*; return False if they differ, or if *to* is gone.

    With *received*, the log must still reach *to*. The time *claimed_us* is stored with the marks. For *fence* see
    `consumer_moves.move`. *then* is executed in the same message. Raises the errors of `leases.check`.
    """
    marks = as_seen(queue_id, lease.generation if fence is None else fence, seen, to, back_seq)
    kept: Statement = _CLAIM, {**marks, "seen_version": version, "claimed_us": claimed_us}
    # After the lock, the sink cannot roll back before the end of the transaction.
    reaches = [reaching(queue_id, seen, to)] if received else []
    return claimed_by(connection, lease, kept, reaches, then)


def claimed_by(
    connection: Connection, lease: Lease, lock: Statement, needed: Sequence[Statement], then: Sequence[Statement]
) -> bool:
    """Execute *lock*, *needed* and *then* in one message; return whether *lock* and all of *needed* have found a row.

    Raises the errors of `leases.check`.
    """
    # On SQLite the first statement must write. Elsewhere the check comes first: through it a successor can see which
    # owner's session holds the row lock.
    statements = [checking(connection, lease), lock]
    if writes_first := dialects.of(connection).one_writer:
        statements.reverse()
    answers = dialects.of(connection).run_all(connection, [*statements, *needed, *then])
    first, second, *others = answers[: 2 + len(needed)]
    held, claimed = (second, first) if writes_first else (first, second)
    judge(lease, held)
    return all((claimed, *others))


def was_committed(connection: Connection, queue_id: int, claimed_us: int) -> bool:
    """Return whether the claim of that time has been committed, without a later write."""
    return connection.execute(_COMMITTED, {"queue": queue_id, "claimed_us": claimed_us}).first() is not None


# A sink can roll back and receive other entries with the same numbers. The branch can be the same too, because a
# restored SQLite file keeps its branch. Only the version then tells the entries apart.
_CLAIM = (
    update(consumers)
    .where(*AS_SEEN, consumers.c.version == bindparam("seen_version"))
    .values(updated_us=bindparam("claimed_us"))
    .returning(consumers.c.queue_id)
)
_COMMITTED = select(consumers.c.queue_id).where(
    consumers.c.queue_id == bindparam("queue"), consumers.c.updated_us == bindparam("claimed_us")
)
