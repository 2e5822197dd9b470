"""The listener: the interface that a sink application implements (docs/design.md, "Applications")."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sqlalchemy.orm import Session

from lr_client.subscriber.column_batch import ColumnBatch
from queues.positions import Position
from queues.wire.entry_pb2 import RoutingTableEntryMsg


class RoutingQueueListener(ABC):
    """Applies the entries that other sites send for one client.

    Every callback gets a session of the site's database with an open transaction, and makes its changes there.
    The callback must not commit, roll back or close the session, also not by SQL or through the driver.
    Use `session.begin_nested()` for parts that may fail. Ending the transaction is a `ListenerError`, and the entries
    come again. Changes that a COMMIT has already made durable are then made twice.

    Any error fails the call, and the entries come again. `SystemExit` or `asyncio.CancelledError` end no thread.

    Entries of one source come in order, one call at a time. Each source has its own thread, so calls for different
    sources may overlap.

    Example:
        >>> class Apply(RoutingQueueListener):
        ...     client_name = "policy"
        ...
        ...     def process_updates_in_snapshot_sync(self, session, source_id, entries):
        ...         session.add_all(Rule.decode(entry.opaque_payload) for entry in entries)
        ...         return True
        ...
        ...     process_updates_in_log_entry_sync = process_updates_in_snapshot_sync
    """

    #: The client whose entries this listener applies.
    client_name: str

    @abstractmethod
    def process_updates_in_snapshot_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Apply rows of a full snapshot, in their order.

        True removes the rows from the queue in the transaction of *session*. False or an exception rolls the
        transaction back, and the rows come again.
        """

    def process_snapshot_columns(self, session: Session, source_id: str, columns: ColumnBatch) -> bool:
        """Apply rows of a full snapshot in bulk; a listener with this method gets no row in the other form.

        True, False and exceptions mean the same as in `process_updates_in_snapshot_sync`. Rows that failed before, or
        were parked, come here one at a time.

        Example for PostgreSQL:
            >>> def process_snapshot_columns(self, session, source_id, columns):
            ...     with session.connection().connection.cursor().copy("COPY rules FROM STDIN") as copy:
            ...         for key, payload in zip(columns.item_keys, columns.payloads):
            ...             copy.write_row((key, payload.decode()))
            ...     return True
        """
        raise NotImplementedError

    @abstractmethod
    def process_updates_in_log_entry_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Apply one or more whole source transactions, in their order.

        Entries that a later entry of their item replaces are not among *entries*. Transactions from such an entry up to
        the later one come in one call. So every call ends in a state that the source had. True, False and exceptions
        mean the same as in `process_updates_in_snapshot_sync`.
        """

    def on_snapshot_sync_start(self, session: Session, source_id: str) -> None:  # noqa: B027 - optional
        """Prepare for a full snapshot of *source_id*, which replaces everything received from that source before.

        Called once for each snapshot, in the transaction that records the start. If a newer snapshot replaces this one
        before its end, the newer one starts, and this one never completes.
        """

    def on_snapshot_sync_complete(self, session: Session, source_id: str) -> None:  # noqa: B027 - optional
        """Finish the snapshot: all its rows are applied, and log entries come next.

        Called once for each snapshot, in the transaction that records the completion.
        """

    def on_rollback(self, session: Session, source_id: str, position: Position) -> None:
        """Undo the applied entries of *source_id* whose `sequence` is above `position.seq`.

        The restored source has lost these entries, or an operator has ordered them again (`lrq replay`). Called in the
        transaction that sets the queue back; the source's entries after the position come next. For a listener without
        this method, a restored source sends a full snapshot instead, and a replay is refused.
        """
        raise NotImplementedError

    def on_stream_end(self, session: Session, source_id: str) -> None:  # noqa: B027 - optional
        """Finish the work on entries of *source_id*: the link has ended, and every entry is applied.

        Called once for each end, in the transaction that records the end, as the last call for this source. Parked
        entries delay it. Later calls come only if an operator of the source begins the link again.
        """

    def on_error(self, source_id: str, error: Exception) -> None:  # noqa: B027 - optional
        """Learn of an error: the work is tried again, or this process must stand by (`OwnershipLostError`).

        *source_id* is empty if the error concerns no single source.
        """
