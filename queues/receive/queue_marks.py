"""Read the marks of both sides of receive queues in one statement, without changing them."""

from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, case, func, select

from queues.counts import COUNTED
from queues.database.tables.consumers import consumers, parked_entries
from queues.database.tables.receive import receive_marks, receive_queues
from queues.names import ClientName, SiteId
from queues.receive import log_blocks
from queues.receive.consumer_marks import APPLIED_SEQ, Consumed, Received
from queues.receive.newest import newest


class QueueMarks(NamedTuple):
    """Both sides' marks of one queue; `consumed` is None before the first subscriber.

    `applied_total` counts all entries that subscribers have ever removed; for `back_seq` see `QueueState`.
    """

    received: Received
    consumed: Consumed | None
    applied_total: int
    back_seq: int


def queue_marks(connection: Connection, queue_id: int) -> QueueMarks:
    """Read the marks of a queue that the sink has written to."""
    marks = [receive_marks.c[name] for name in Received._fields]
    own = [consumers.c[name] for name in (*Consumed._fields, "applied_total", "back_seq")]
    row = connection.execute(
        select(*marks, *own)
        .outerjoin_from(receive_marks, consumers, consumers.c.queue_id == receive_marks.c.queue_id)
        .where(receive_marks.c.queue_id == queue_id)
    ).one()
    received = Received(*row[: len(marks)])
    phase, *rest, total, back_seq = row[len(marks) :]
    if phase is None:
        return QueueMarks(received, None, 0, 0)
    return QueueMarks(received, Consumed(phase, *rest), total, back_seq)


class AppliedMarks(NamedTuple):
    """The subscriber's progress and the queue's newest snapshot: `newest_sync_id`, `cut`, `cut_branch`."""

    queue_id: int
    phase: str
    sync_id: str
    applied_seq: int
    newest_sync_id: str
    cut: str
    cut_branch: str


def applied_marks(connection: Connection, client: ClientName, source: SiteId) -> AppliedMarks | None:
    """Read the progress of *client*'s subscriber in the queue of *source*; None before the subscriber starts."""
    own = (receive_queues.c.client == client, receive_queues.c.source == source)
    own_id = select(receive_queues.c.queue_id).where(*own).scalar_subquery()
    row = connection.execute(
        select(
            consumers.c.queue_id,
            consumers.c.phase,
            consumers.c.sync_id,
            APPLIED_SEQ,
            receive_marks.c.sync_id,
            receive_marks.c.cut,
            receive_marks.c.branch,
        )
        .join_from(consumers, receive_marks, receive_marks.c.queue_id == consumers.c.queue_id)
        .where(consumers.c.queue_id == own_id, newest(consumers, own_id), newest(receive_marks, own_id))
    ).first()
    return None if row is None else AppliedMarks(*row)


class QueueRow(NamedTuple):
    """A receive queue for the status; missing marks are None."""

    queue_id: int
    name: str
    client: ClientName
    source: SiteId
    received_seq: int | None
    source_seq: int | None
    staging_sync_id: str | None
    staging_rows: int | None
    sync_id: str | None
    entries_total: int | None
    duplicates_total: int | None
    phase: str | None
    applied_seq: int | None
    applied_total: int | None
    consumed_sync_id: str | None


def every_queue(connection: Connection) -> list[QueueRow]:
    """Return all receive queues, by name."""
    joined = receive_queues.outerjoin(receive_marks, receive_marks.c.queue_id == receive_queues.c.queue_id).outerjoin(
        consumers, consumers.c.queue_id == receive_queues.c.queue_id
    )
    columns: list[ColumnElement[Any]] = [
        receive_queues.c.queue_id,
        receive_queues.c.name,
        receive_queues.c.client,
        receive_queues.c.source,
        receive_marks.c.seq,
        receive_marks.c.source_seq,
        receive_marks.c.staging_sync_id,
        receive_marks.c.staging_rows,
        receive_marks.c.sync_id,
        receive_marks.c.entries_total,
        receive_marks.c.duplicates_total,
        consumers.c.phase,
        APPLIED_SEQ,
        consumers.c.applied_total,
        consumers.c.sync_id,
    ]
    ordered = select(*columns).select_from(joined).order_by(receive_queues.c.name)
    return [QueueRow(*row) for row in connection.execute(ordered)]


#: The subscriber's progress in the log that is in the queue; 0 before it begins the newest snapshot.
LOG_PROGRESS: Final = func.coalesce(case((consumers.c.sync_id == receive_marks.c.sync_id, APPLIED_SEQ)), 0)


def log_progress(connection: Connection, queue_id: int) -> int:
    """Return the number of the last applied log entry in the numbering of the queue; 0 for none."""
    own = receive_marks.c.queue_id == queue_id
    joined = select(LOG_PROGRESS).outerjoin_from(
        receive_marks, consumers, consumers.c.queue_id == receive_marks.c.queue_id
    )
    return connection.execute(joined.where(own)).scalar() or 0


class Backlog(NamedTuple):
    """The unapplied entries of a queue, counted up to `COUNTED` + 1; `oldest_us` is 0 if there are none."""

    entries: int
    oldest_us: int
    parked: int


def backlog(connection: Connection, queue_id: int) -> Backlog:
    """Count the entries of a queue and its parked entries."""
    applied_seq = log_progress(connection, queue_id)
    return Backlog(
        log_blocks.count(connection, queue_id, applied_seq, COUNTED + 1),
        log_blocks.oldest_us(connection, queue_id, applied_seq),
        parked_count(connection, queue_id),
    )


def parked_count(connection: Connection, queue_id: int) -> int:
    """Return the number of parked entries of a queue."""
    own = select(func.count()).select_from(parked_entries).where(parked_entries.c.queue_id == queue_id)
    return int(connection.execute(own).scalar_one())
