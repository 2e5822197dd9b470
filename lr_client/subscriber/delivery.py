"""One step of a subscriber as one transaction over the marks, the lease, the listener and the queue."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NoReturn

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session

from discovery.registry import ReceiveQueue
from lr_client.subscriber import listener_session
from lr_client.subscriber.callbacks import takes_columns, undoes
from lr_client.subscriber.column_batch import ColumnBatch, column_batch
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.listener_session import ListenerSession
from lr_client.subscriber.received_entries import received_entries
from lr_client.subscriber.steps import DeliveryStep, Kind
from lr_client.subscriber.transaction_guard import SAVEPOINT, EndedError, ended, guarded
from lr_client.tracing import consumer_span
from queues.clock import now_us
from queues.database import dialects
from queues.database.dialect import Statement
from queues.database.leases import Lease
from queues.database.transactions import mapped_errors, reading, writing
from queues.errors import ListenerError, SnapshotFailedError
from queues.logs import logger
from queues.positions import Position
from queues.receive import (
    consumer_marks,
    consumer_moves,
    delivery_claim,
    failures,
    parked_retries,
    parked_rows,
    snapshot_blocks,
)
from queues.receive.failures import Failure
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from queues.words import class_of

_log = logger("lrq.subscriber")


class Superseded(Exception):  # noqa: N818 - no error, only a reason to read again
    """The queue has changed since the step was read: read the step again."""


class Delivery:
    """Carries out the steps of one queue under one lease."""

    def __init__(
        self,
        engine: Engine,
        listener: RoutingQueueListener,
        queue: ReceiveQueue,
        lease: Lease,
        *,
        trace: bool = True,
        fence: int | None = None,
    ) -> None:
        """Deliver *queue* to *listener* until another subscriber takes over *lease*.

        See `subscribe` for *trace*, and `consumer_moves.move_claimed` for *fence*.
        """
        self._engine = engine
        self._listener = listener
        self._queue = queue
        self._lease = lease
        self._trace = trace
        self._fence = fence

    def carry_out(self, step: DeliveryStep, *, recovers: bool = False) -> None:
        """Carry out all of *step* or nothing; with *recovers*, also clear the queue's recorded failure.

        Raises `Superseded` when the queue has changed, `OwnershipLostError` when another subscriber has taken over.
        Raises `StoreUnavailableError` when the database cannot be used. An `Exception` of the
        listener passes through. `ListenerError`: the listener returned False, broke its contract, or raised no
        `Exception`.
        """
        try:
            self._carry_out(step, recovers)
        except Exception:
            raise
        except SystemExit as exit_:
            raise ListenerError("the listener called sys.exit(): stop the subscription with close()") from exit_
        except BaseException as raised:
            raise ListenerError(
                f"the listener raised {class_of(raised)}, which is no Exception: the call counts as failed, "
                "and the entries come again"
            ) from raised

    def _carry_out(self, step: DeliveryStep, recovers: bool) -> None:
        claimed_us = now_us()
        try:
            with mapped_errors(), self._transaction() as session:
                connection = session.connection()
                origin = dialects.of(connection).naming_origin(self._queue.source)
                self._claim(connection, step, claimed_us, [*origin, (SAVEPOINT, {})])
                with guarded(session.connection(), session), listener_session.around(session):
                    self._call(session, step)
                self._complete(connection, step)
                if recovers:
                    self._forget_failure(connection)
        except EndedError as error:
            raise ended(error, committed=self._was_committed(claimed_us)) from error.__cause__

    def _transaction(self) -> AbstractContextManager[ListenerSession]:
        return listener_session.transaction(self._engine)

    def park(self, step: DeliveryStep, failure: Failure) -> None:
        """Set the one source transaction of *step* aside as parked; raises like `carry_out`."""
        with writing(self._engine) as connection:
            self.park_within(connection, step, failure)

    def park_within(self, connection: Connection, step: DeliveryStep, failure: Failure) -> None:
        """Carry out `park` in the caller's transaction; after an error the caller rolls back."""
        kind = parked_rows.SNAPSHOT if step.of_snapshot else parked_rows.LOG
        self._claim(connection, step, now_us())
        parked_rows.park(connection, self._queue.queue_id, kind, step.history, step.rows, failure)
        self._complete(connection, step)
        self._forget_failure(connection)

    def _forget_failure(self, connection: Connection) -> None:
        failures.clear(connection, self._queue.queue_id)

    def _claim(
        self, connection: Connection, step: DeliveryStep, claimed_us: int, then: Sequence[Statement] = ()
    ) -> None:
        claimed = delivery_claim.claim(
            connection,
            self._queue.queue_id,
            self._lease,
            step.seen,
            step.to,
            version=step.version,
            claimed_us=claimed_us,
            back_seq=step.back_seq,
            received=step.kind is Kind.LOG_ENTRIES,
            fence=self._fence,
            then=then,
        )
        if claimed and step.retry is not None:
            claimed = parked_retries.keep(connection, step.retry)
        if not claimed:
            raise Superseded
        if step.incomplete:
            self._explain_missing_rows(connection, step)

    def _was_committed(self, claimed_us: int) -> bool:
        with reading(self._engine) as connection:
            return delivery_claim.was_committed(connection, self._queue.queue_id, claimed_us)

    def _explain_missing_rows(self, connection: Connection, step: DeliveryStep) -> NoReturn:
        stands = consumer_marks.queue_state(connection, self._queue.queue_id)
        if stands is None or stands.received.sync_id != step.seen.sync_id:
            raise Superseded
        raise SnapshotFailedError(
            f"rows after {step.seen.row_no} of snapshot {step.seen.sync_id} are not in {self._queue.name} any more: "
            "request a new snapshot"
        )

    def _call(self, session: Session, step: DeliveryStep) -> None:
        if step.kind is Kind.ROLLBACK:
            self._undo(session, step)
        elif step.kind is Kind.SNAPSHOT_START:
            self._tell("on_snapshot_sync_start", session)
        elif step.kind is Kind.SNAPSHOT_COMPLETE:
            self._tell("on_snapshot_sync_complete", session)
        elif step.kind is Kind.STREAM_END:
            self._tell_end(session)
        elif step.of_snapshot and step.rows and takes_columns(self._listener):
            with consumer_span(self._queue.name, (), count=len(step.rows), enabled=self._trace):
                self._apply("process_snapshot_columns", session, column_batch(step.history, step.rows))
        elif step.rows:
            name = "process_updates_in_snapshot_sync" if step.of_snapshot else "process_updates_in_log_entry_sync"
            entries = self._entries(step)
            with consumer_span(self._queue.name, entries, enabled=self._trace):
                self._apply(name, session, entries)

    def _apply(self, callback: str, session: Session, rows: Sequence[RoutingTableEntryMsg] | ColumnBatch) -> None:
        answer = getattr(self._listener, callback)(session, self._queue.source, rows)
        if not listener_session.checked_answer(answer, callback):
            words = f"{callback} returned False: the changes are undone, the entries come again"
            raise ListenerError(words, refused=True)

    def _undo(self, session: Session, step: DeliveryStep) -> None:
        if not undoes(self._listener):
            raise ListenerError(
                f"the entries of {self._queue.source} after {step.to.seq} must be undone, and the listener has no "
                f"on_rollback: request a snapshot from {self._queue.source}"
            )
        self._tell("on_rollback", session, Position(step.to.branch, step.to.seq))

    def _tell_end(self, session: Session) -> None:
        # A listener of an older application has no such method.
        if hasattr(self._listener, "on_stream_end"):
            self._tell("on_stream_end", session)

    def _tell(self, callback: str, session: Session, *details: object) -> None:
        result = getattr(self._listener, callback)(session, self._queue.source, *details)
        listener_session.require_done(result, callback)

    def _entries(self, step: DeliveryStep) -> list[RoutingTableEntryMsg]:
        source, client = self._queue.source, self._queue.client
        if step.of_snapshot:
            return received_entries(step.rows, source=source, client=client, sync_id=step.history)
        return received_entries(step.rows, source=source, client=client, branch=step.history)

    def _complete(self, connection: Connection, step: DeliveryStep) -> None:
        """Move the marks and remove the applied rows; only after the listener, whose COMMIT could make both durable."""
        if not self._completed(connection, step):
            raise Superseded
        if step.kind is Kind.ROLLBACK:
            parked_rows.forget_after(connection, self._queue.queue_id, step.to.seq)
        elif step.kind is Kind.SNAPSHOT_START and (gone := parked_rows.forget_all(connection, self._queue.queue_id)):
            client, source = self._queue.client, self._queue.source
            _log.warning("a snapshot replaces parked entries", client=client, source=source, entries=gone)

    def _completed(self, connection: Connection, step: DeliveryStep) -> bool:
        queue_id, seen, to = self._queue.queue_id, step.seen, step.to
        if step.retry is not None:
            return parked_retries.take(connection, step.retry)
        if step.kind is Kind.LOG_ENTRIES:
            return consumer_moves.apply_blocks(
                connection, queue_id, self._lease, seen, to,
                applied=len(step.rows), blocks=step.blocks, freed=step.freed, back_seq=step.back_seq, fence=self._fence,
            )  # fmt: skip
        applied, back_seq = len(step.rows), step.back_seq
        consumer_moves.move_claimed(
            connection, queue_id, self._lease, seen, to, applied=applied, back_seq=back_seq, fence=self._fence
        )
        if step.kind is not Kind.SNAPSHOT_ROWS:
            return True
        removed = snapshot_blocks.remove(connection, queue_id, seen.sync_id, after=seen.row_no, upto=to.row_no)
        return removed == applied
