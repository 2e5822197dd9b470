"""One step of a subscriber as one transaction: marks, lease, listener, queue."""

from typing import NoReturn

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session

from discovery.registry import ReceiveQueue
from lr_client import listening
from lr_client.listener import RoutingQueueListener, undoes
from lr_client.steps import Kind, Step
from queues import leases
from queues.codec import received_entry
from queues.errors import ListenerError, SnapshotFailedError
from queues.leases import Lease
from queues.positions import Position
from queues.receive import consuming, failures, parked, snapshot
from queues.receive.upcoming import EntryRow
from queues.transactions import mapped_errors, writing
from queues.wire.entry_pb2 import RoutingTableEntryMsg


class Superseded(Exception):  # noqa: N818 - nothing went wrong
    """The queue has changed since the step was read: read again."""


class Delivery:
    """Carries out the steps of one queue under one lease."""

    def __init__(self, engine: Engine, listener: RoutingQueueListener, queue: ReceiveQueue, lease: Lease) -> None:
        """Deliver *queue* to *listener* for as long as *lease* is not taken over."""
        self._engine = engine
        self._listener = listener
        self._queue = queue
        self._lease = lease

    def carry_out(self, step: Step, *, recovers: bool = False) -> None:
        """Do all of *step* or nothing; with *recovers*, also clear the queue's recorded failure.

        Raises `Superseded` when the queue has changed, `OwnershipLostError` when another subscriber has taken over,
        `StoreUnavailableError` when the database cannot be used, and else what the listener raised, or
        `ListenerError` when it returned False or broke its contract.
        """
        with mapped_errors(), listening.transaction(self._engine) as session:
            connection = session.connection()
            # The first statement writes: SQLite gives its lock at once, and a second subscriber waits or is refused.
            self._claim(connection, step)
            try:
                self._call(session, step)
            except SystemExit as exit_:
                raise ListenerError("the listener called sys.exit(): stop the subscription with close()") from exit_
            session.require_unended()
            self._remove(connection, step)
            if recovers:
                failures.clear(connection, self._queue.queue_id)

    def park(self, step: Step, error: str, tries: int) -> None:
        """Set the one source transaction of *step* aside instead; raises like `carry_out`."""
        kind = parked.SNAPSHOT if step.of_snapshot else parked.LOG
        with writing(self._engine) as connection:
            self._claim(connection, step)
            parked.park(connection, self._queue.queue_id, kind, step.history, step.rows, error, tries)
            self._remove(connection, step)
            failures.clear(connection, self._queue.queue_id)

    def _claim(self, connection: Connection, step: Step) -> None:
        queue_id = self._queue.queue_id
        # On SQLite the first statement must write; elsewhere a row is locked only when a successor can tell by whom.
        check_first = connection.dialect.name != "sqlite"
        if check_first:
            leases.check(connection, self._lease)
        if step.retry is not None:
            claimed = parked.take(connection, step.retry)
        else:
            claimed = consuming.move(
                connection, queue_id, self._lease, step.seen, step.to, applied=len(step.rows), back_seq=step.back_seq
            )
        if not check_first:
            leases.check(connection, self._lease)
        if step.kind is Kind.LOG_ENTRIES:
            claimed = claimed and consuming.still_received(connection, queue_id, step.seen, step.to)
        if not claimed:
            raise Superseded
        if step.incomplete:
            self._explain_missing_rows(connection, step)

    def _explain_missing_rows(self, connection: Connection, step: Step) -> NoReturn:
        stands = consuming.standing(connection, self._queue.queue_id)
        if stands is None or stands.received.sync_id != step.seen.sync_id:
            raise Superseded
        raise SnapshotFailedError(
            f"rows after {step.seen.row_no} of snapshot {step.seen.sync_id} are not in {self._queue.name} any more: "
            "request a new snapshot"
        )

    def _call(self, session: Session, step: Step) -> None:
        listener, source = self._listener, self._queue.source
        if step.kind is Kind.ROLLBACK:
            self._undo(session, step)
        elif step.kind is Kind.SNAPSHOT_START:
            listener.on_snapshot_sync_start(session, source)
        elif step.kind is Kind.SNAPSHOT_COMPLETE:
            listener.on_snapshot_sync_complete(session, source)
        elif step.rows:
            name = "process_updates_in_snapshot_sync" if step.of_snapshot else "process_updates_in_log_entry_sync"
            answer = getattr(listener, name)(session, source, [self._entry(row, step) for row in step.rows])
            if not listening.checked_answer(answer, name):
                raise ListenerError(f"{name} returned False: its changes were undone, the entries come back")

    def _undo(self, session: Session, step: Step) -> None:
        if not undoes(self._listener):
            raise ListenerError(
                f"{self._queue.source} has lost what came after {step.to.seq}, and the listener has no on_rollback to "
                f"undo what is applied of it: request a snapshot from {self._queue.source}"
            )
        parked.forget_after(session.connection(), self._queue.queue_id, step.to.seq)
        self._listener.on_rollback(session, self._queue.source, Position(step.to.branch, step.to.seq))

    def _entry(self, row: EntryRow, step: Step) -> RoutingTableEntryMsg:
        return received_entry(
            source=self._queue.source,
            client=self._queue.client,
            sequence=row.seq,
            payload=row.payload,
            item_key=row.item_key,
            transaction=0 if step.of_snapshot else row.transaction_seq,
            commit_time_us=row.committed_us,
            branch="" if step.of_snapshot else step.history,
            sync_id=step.history if step.of_snapshot else "",
        )

    def _remove(self, connection: Connection, step: Step) -> None:
        queue_id, seen, removed = self._queue.queue_id, step.seen, 0
        if step.kind is Kind.SNAPSHOT_ROWS:
            removed = snapshot.remove(connection, queue_id, seen.sync_id, after=seen.row_no, upto=step.to.row_no)
        elif step.kind is Kind.LOG_ENTRIES and step.rows:
            removed = consuming.remove_entries(connection, queue_id, seen, step.to.branch, step.to.seq)
        if step.retry is None and removed != len(step.rows):
            raise Superseded
