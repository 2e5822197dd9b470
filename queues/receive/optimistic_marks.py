"""Replace the marks of a receive queue without locking them first: one message to PostgreSQL, including the commit.

The writer that stored the marks last expects them to be unchanged. The statement that replaces them fails if they
differ. An UPDATE without a matching row would not fail, and the rest of the message would commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    Update,
    and_,
    bindparam,
    case,
    cast,
    exc,
    exists,
    func,
    literal,
    select,
    true,
    update,
)

from queues.database.dialect import Statement
from queues.database.tables import consumers, receive_marks
from queues.receive import entries, wakeups
from queues.receive.consumer_marks import APPLIED_SEQ
from queues.receive.entries import NO_BLOCKS
from queues.receive.log_blocks import NewBlocks
from queues.receive.marks import ReceiveState
from queues.receive.newest import newest
from queues.receive.writer_marks import Stored, columns_of, replaced


class StaleMarks(Exception):  # noqa: N818 - the batch is repeated with locked marks
    """The marks differ from the expected ones; the transaction has changed nothing."""


@dataclass(frozen=True, slots=True)
class ExpectedMarks:
    """Marks that this transaction has not locked: `save` fails if they differ from *stored*."""

    stored: Stored

    def save(
        self,
        connection: Connection,
        marks: ReceiveState,
        now_us: int,
        *,
        new: NewBlocks = NO_BLOCKS,
        changes: Sequence[Statement] = (),
        last: bool = False,
    ) -> "ExpectedMarks":
        """Replace the marks and read the subscriber's position; then add *new* and execute *changes*.

        The parameters are those of `LockedMarks.save`. Raises `StaleMarks`.
        """
        replacing = _replacing(self.stored, marks, now_us)
        try:
            answers = entries.append(connection, self.stored.queue_id, new, first=[replacing], then=changes, last=last)
        except exc.DataError as error:
            if getattr(error.orig, "sqlstate", None) != _NO_NUMBER:
                raise
            raise StaleMarks from error
        applied_seq, applied_bytes, *_ = answers[0][0]
        return ExpectedMarks(replaced(self.stored, marks, applied_seq, applied_bytes))


def _replacing(expected: Stored, marks: ReceiveState, now_us: int) -> Statement:
    seen = {
        "seen": expected.version,
        "seen_generation": expected.marks.generation,
        "seen_seq": expected.marks.received.seq,
        "tells": wakeups.brings_work(expected.marks, marks),
    }
    new = {"version": expected.version + 1, "updated_us": now_us, **columns_of(marks)}
    values = {"of_queue": expected.queue_id, **seen, **{f"new_{name}": value for name, value in new.items()}}
    return _REPLACE, values


# SQL has no statement that raises an error. Casting this text to a number fails, and PostgreSQL's message quotes it.
_STALE: Final = "another writer has replaced these marks"
_NO_NUMBER: Final = "22P02"

_NEW = {
    column.name: bindparam(f"new_{column.name}", type_=column.type)
    for column in receive_marks.c
    if column is not receive_marks.c.queue_id
}
_AS_EXPECTED = (
    update(receive_marks)
    .values(_NEW)
    .where(
        receive_marks.c.queue_id == bindparam("of_queue"),
        receive_marks.c.version == bindparam("seen"),
        receive_marks.c.generation == bindparam("seen_generation"),
        receive_marks.c.seq == bindparam("seen_seq"),
    )
)


def _failing_without_row(save: Update) -> Select[tuple[Any, ...]]:
    saved = save.returning(receive_marks.c.queue_id).cte("saved")
    own: ColumnElement[int] = bindparam("of_queue")
    one = select(literal(1)).subquery("one")  # the row of a queue without a subscriber
    return select(
        case((consumers.c.sync_id == _NEW["sync_id"], APPLIED_SEQ), else_=0),
        func.coalesce(consumers.c.applied_bytes, 0),
        cast(case((exists(select(saved.c.queue_id)), "1"), else_=_STALE), Integer),
        func.set_config("synchronous_commit", "on", true()),
        wakeups.NOTIFYING,
    ).outerjoin_from(one, consumers, and_(consumers.c.queue_id == own, newest(consumers, own)))


_REPLACE = _failing_without_row(_AS_EXPECTED)
