"""The receive queues of a client as they are at one moment, and the wait until they are applied."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from discovery import registry
from discovery.receive_status import FailureStatus
from discovery.registry import ReceiveQueue
from lr_client.subscriber.steps import Kind, next_kind
from queues.database.transactions import reading
from queues.names import ClientName
from queues.receive import failures, parked_rows
from queues.receive.consumer_marks import IN_LOG, NOWHERE, Received, queue_state
from queues.receive.failures import Failure
from queues.receive.marks import NOT_ENDED
from queues.receive.queue_marks import QueueMarks, parked_count, queue_marks


@dataclass(frozen=True, slots=True)
class Target:
    """The entries of one queue that are to be applied, and its failures and parked entries at the start.

    `failures` are those of the shards by their numbers, and that of a queue without shards by None.
    """

    queue: ReceiveQueue
    received: Received
    failures: Mapping[int | None, Failure]
    parked: int
    max_tries: int


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """The progress of one queue; `refusal` is the sentence of a listener that has refused too often."""

    target: Target
    seq: int
    reached: bool
    parked: int
    refusal: str = ""

    @property
    def name(self) -> str:
        """Name the queue for people."""
        return f"{self.target.queue.client} from {self.target.queue.source}"

    def words(self) -> str:
        """Tell how far the queue is applied."""
        return f"{self.name} is applied up to {self.seq} of {self.target.received.boundary_seq}"


def targets(engine: Engine, clients: Iterable[tuple[ClientName, int]]) -> list[Target]:
    """Return the receive queues of each client as they are now; with the client come the tries of its listener."""
    with reading(engine, snapshot=True) as connection:
        return [
            _target(connection, queue, max_tries)
            for client, max_tries in clients
            for queue in registry.find(connection, client)
        ]


def look(engine: Engine, wanted: Sequence[Target]) -> list[QueueProgress]:
    """Return the progress of each target now."""
    with reading(engine, snapshot=True) as connection:
        return [_progress(connection, target) for target in wanted]


def is_applied(wanted: Received, now: QueueMarks) -> bool:
    """Return whether everything of *wanted* is applied. Pure.

    After a newer snapshot or on another branch, the entries of *wanted* may never come: the newest marks count then.
    """
    received, consumed = now.received, now.consumed
    if (received.sync_id, received.branch) != (wanted.sync_id, wanted.branch):
        wanted = received
    if consumed is None:
        return not wanted.sync_id and wanted.boundary_seq == 0 and received.ended_seq == NOT_ENDED
    if now.back_seq > NOWHERE:
        return False
    if wanted.sync_id and (consumed.sync_id, consumed.phase) != (wanted.sync_id, IN_LOG):
        return False
    return consumed.seq >= wanted.boundary_seq


def is_refused(before: Failure | None, now: Failure | None, max_tries: int) -> bool:
    """Return whether one source transaction was refused *max_tries* times since *before*. Pure."""
    if now is None:
        return False
    earlier = before.tries if before is not None and before.seq == now.seq and before.tries <= now.tries else 0
    return now.tries - earlier >= max_tries


def _target(connection: Connection, queue: ReceiveQueue, max_tries: int) -> Target:
    received = queue_marks(connection, queue.queue_id).received
    held = _failures(connection, queue.queue_id)
    return Target(queue, received, held, parked_count(connection, queue.queue_id), max_tries)


def _failures(connection: Connection, queue_id: int) -> dict[int | None, Failure]:
    own = failures.last(connection, queue_id)
    of_all: dict[int | None, Failure] = {} if own is None else {None: own}
    return of_all | failures.of_shards(connection, queue_id)


def _progress(connection: Connection, target: Target) -> QueueProgress:
    queue_id = target.queue.queue_id
    marks = queue_marks(connection, queue_id)
    reached = is_applied(target.received, marks) and not _has_calls_left(connection, queue_id)
    refusal = "" if reached else _refusal(target, _failures(connection, queue_id))
    parked_now = parked_count(connection, queue_id) if reached else target.parked
    return QueueProgress(
        target, marks.consumed.seq if marks.consumed else 0, reached, parked_now - target.parked, refusal
    )


def _has_calls_left(connection: Connection, queue_id: int) -> bool:
    """Return whether a planned retry waits for the listener, or the end of the stream."""
    stands = queue_state(connection, queue_id)
    kind = None if stands is None else next_kind(stands)
    # Parked transactions delay the end until an operator acts.
    return kind is Kind.RETRY or (kind is Kind.STREAM_END and not parked_rows.has_any(connection, queue_id))


def _refusal(target: Target, now: Mapping[int | None, Failure]) -> str:
    for shard, failure in now.items():
        if is_refused(target.failures.get(shard), failure, target.max_tries):
            error = FailureStatus.of(failure).without_message().error
            # A call without entries has no number, nor an error before any entry was read.
            what = f"the entry at {failure.seq} was refused" if failure.seq else "the delivery has failed"
            return f"{what} {failure.tries} times ({error})"
    return ""
