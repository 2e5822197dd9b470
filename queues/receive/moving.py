"""Moving the marks of a receive queue without locking them first: one message to PostgreSQL, the commit in it.

Who wrote them last knows them. Whether they are still the same is found out by the statement that replaces them: it
divides by the number of marks that it has replaced.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Update, bindparam, exc, exists, func, literal, select, true, update

from queues.dialects.statements import Statement
from queues.leases import Lease
from queues.receive.consuming import APPLIED_SEQ
from queues.receive.marks import Marks
from queues.receive.newest import newest
from queues.receive.receiving import Stored, columns_of
from queues.tables import consumers, leases, receive_marks

_DIVISION_BY_ZERO: Final = "22012"


class MovedError(Exception):
    """The marks are not those that they were believed to be: nothing of the transaction is done."""


def moving(known: Stored, marks: Marks, now_us: int, lease: Lease | None) -> Statement:
    """Return what replaces marks that nobody has locked: `receiving.find` and `saving` in one, for PostgreSQL.

    It fails, so that the transaction does too, when they are not the *known* ones any more or the *lease* is not held;
    read its error by `moved`. It returns how far the subscriber has come in the history of *marks*.
    """
    seen = {"seen": known.version, "seen_generation": known.marks.generation, "seen_seq": known.marks.received.seq}
    new = {"version": known.version + 1, "updated_us": now_us, **columns_of(marks)}
    values = {"of_queue": known.queue_id, **seen, **{f"new_{name}": value for name, value in new.items()}}
    if lease is None:
        return _MOVE, values
    return _MOVE_UNDER_LEASE, {**values, "lease": lease.name, "held": lease.generation}


@contextmanager
def moved() -> Iterator[None]:
    """Raise `MovedError` for what `moving` fails with."""
    try:
        yield
    except exc.DataError as error:
        if getattr(error.orig, "sqlstate", None) != _DIVISION_BY_ZERO:
            raise
        raise MovedError from error


_NEW = {
    column.name: bindparam(f"new_{column.name}", type_=column.type)
    for column in receive_marks.c
    if column is not receive_marks.c.queue_id
}
_UNMOVED = (
    update(receive_marks)
    .values(_NEW)
    .where(
        receive_marks.c.queue_id == bindparam("of_queue"),
        receive_marks.c.version == bindparam("seen"),
        receive_marks.c.generation == bindparam("seen_generation"),
        receive_marks.c.seq == bindparam("seen_seq"),
    )
)
_HELD = exists().where(leases.c.name == bindparam("lease"), leases.c.generation == bindparam("held"))


def _moving(save: Update) -> Select[tuple[Any, ...]]:
    saved = save.returning(receive_marks.c.queue_id).cte("saved")
    own: ColumnElement[int] = bindparam("of_queue")
    applied = select(APPLIED_SEQ).where(
        consumers.c.queue_id == own, newest(consumers, own), consumers.c.sync_id == _NEW["sync_id"]
    )
    return select(
        func.coalesce(applied.scalar_subquery(), 0),
        literal(1) // select(func.count()).select_from(saved).scalar_subquery(),
        func.set_config("synchronous_commit", "on", true()),
    )


_MOVE = _moving(_UNMOVED)
_MOVE_UNDER_LEASE = _moving(_UNMOVED.where(_HELD))
