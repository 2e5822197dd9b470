"""Lock a receive queue for a listener's step before its marks move.

A listener may commit the transaction itself, and with it all earlier writes. Therefore only a time is written before
the call, and the marks move after it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import ColumnElement, Connection, Table, bindparam, select, update

from queues.database import dialects
from queues.database.dialect import Statement
from queues.database.leases import Lease, checking, judge
from queues.database.left_out import left_out
from queues.database.tables.consumers import consumers
from queues.errors import StoreUnavailableError
from queues.receive.consumer_marks import Consumed
from queues.receive.consumer_moves import AS_SEEN, as_seen, reaching


class StepLock:
    """The statements that lock a row of marks for a step, if the step has seen the row so."""

    def __init__(self, marks: Table, *as_seen: ColumnElement[bool]) -> None:
        """Lock the row of the table *marks* that is *as_seen*."""
        self.table = marks.name
        #: Locks the row and stores the time `claimed_us`; returns a row if it has found one.
        self.claim = (
            update(marks).where(*as_seen).values(updated_us=bindparam("claimed_us")).returning(marks.c.queue_id)
        )
        self._row = select(marks.c.queue_id).where(*as_seen)

    def is_left_out(self, connection: Connection, values: Mapping[str, object]) -> bool:
        """Return whether a trigger of others leaves out `claim`, which has found no row though the row is there.

        No row comes back to an earlier version. So a row that is as seen now was so for the claim.
        """
        return connection.execute(self._row, values).first() is not None


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
    `consumer_moves.move_claimed`. *then* is executed in the same message. Raises the errors of `claimed_by`.
    """
    marks = as_seen(queue_id, lease.generation if fence is None else fence, seen, to, back_seq)
    values = {**marks, "seen_version": version, "claimed_us": claimed_us}
    # After the lock, the sink cannot roll back before the end of the transaction.
    reaches = [reaching(queue_id, seen, to)] if received else []
    return claimed_by(connection, lease, _LOCK, values, reaches, then)


def claimed_by(
    connection: Connection,
    lease: Lease,
    lock: StepLock,
    values: Mapping[str, object],
    needed: Sequence[Statement],
    then: Sequence[Statement],
) -> bool:
    """Claim the row of *lock*, and execute *needed* and *then*, in one message.

    Return whether the claim and all of *needed* have found a row. Raises the errors of `leases.check`, and
    `StoreUnavailableError` if a trigger of others leaves out the claim.
    """
    # On SQLite the first statement must write. Elsewhere the check comes first: through it a successor can see which
    # owner's session holds the row lock.
    statements: list[Statement] = [checking(connection, lease), (lock.claim, values)]
    if writes_first := dialects.of(connection).one_writer:
        statements.reverse()
    answers = dialects.of(connection).run_all(connection, [*statements, *needed, *then])
    first, second, *others = answers[: 2 + len(needed)]
    held, claimed = (second, first) if writes_first else (first, second)
    judge(lease, held)
    if not claimed and lock.is_left_out(connection, values):
        # Otherwise the subscriber would read the same step again and again, without a word.
        raise StoreUnavailableError(left_out(lock.table))
    return all((claimed, *others))


def was_committed(connection: Connection, queue_id: int, claimed_us: int) -> bool:
    """Return whether the claim of that time has been committed, without a later write."""
    return connection.execute(_COMMITTED, {"queue": queue_id, "claimed_us": claimed_us}).first() is not None


# A sink can roll back and receive other entries with the same numbers. The branch can be the same too, because a
# restored SQLite file keeps its branch. Only the version then tells the entries apart.
_LOCK: Final = StepLock(consumers, *AS_SEEN, consumers.c.version == bindparam("seen_version"))
_COMMITTED = select(consumers.c.queue_id).where(
    consumers.c.queue_id == bindparam("queue"), consumers.c.updated_us == bindparam("claimed_us")
)
