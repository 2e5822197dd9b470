"""One message to the database brings all that a subscriber needs of a queue with little new work."""

from typing import Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, Table, bindparam, case, select

from queues.database import dialects
from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_marks
from queues.receive import log_blocks
from queues.receive.block_entries import ReceivedBlock
from queues.receive.consumer_marks import QUEUE_STATE, QueueState, state_of
from queues.receive.newest import newest


class BriefLook(NamedTuple):
    """Both sides' marks, and the next blocks of the log after number `known` and after the subscriber's marks.

    `last` is the end of the last block with received entries, or 0.
    """

    stands: QueueState | None
    known: int
    blocks: list[ReceivedBlock]
    last: int


def look(connection: Connection, queue_id: int, known: int) -> BriefLook:
    """Look at a queue, and leave out the blocks up to *known*.

    The transaction is for `reading`, with one state and no other statement. Raises the errors of
    `consumer_marks.queue_state`.
    """
    queue: dict[str, object] = {"queue": queue_id}
    asked = (QUEUE_STATE, queue), (BLOCKS, {**queue, "known": known}), (LAST, queue)
    marks, blocks, [(last,)] = dialects.of(connection).run_all(connection, asked, last=True)
    stands = state_of(marks[0]) if marks else None
    return BriefLook(stands, known, [ReceivedBlock(*row) for row in blocks], last or 0)


def _mark(table: Table, name: str) -> ColumnElement[int]:
    queue: ColumnElement[int] = bindparam("queue")
    return select(table.c[name]).where(table.c.queue_id == queue, newest(table, queue)).scalar_subquery()


_KNOWN: Final = bindparam("known", type_=BigInteger)
_SEEN: Final = _mark(consumers, "seq")
_RECEIVED: Final = _mark(receive_marks, "boundary_seq")
BLOCKS: Final = log_blocks.following(case((_SEEN > _KNOWN, _SEEN), else_=_KNOWN), _RECEIVED)
LAST: Final = log_blocks.last_end(_RECEIVED)
