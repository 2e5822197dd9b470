"""What a sink application implements: a listener (seed 004, "Stream listener for routing queue at sink side")."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sqlalchemy.orm import Session

from queues.positions import Position
from queues.wire.entry_pb2 import RoutingTableEntryMsg


class RoutingQueueListener(ABC):
    """Applies what other sites sent for one client.

    Every callback gets a session of the site's database with an open transaction, in which it makes its own changes;
    it never commits, rolls back or closes it. Entries of one source come in order, one call at a time. Different
    sources have a thread each, so calls for them may overlap.

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

        True deletes them from the queue in the transaction of *session*; False or an exception rolls it back, and
        they come again.
        """

    @abstractmethod
    def process_updates_in_log_entry_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        """Apply one or more whole source transactions, in their order; True and False as for a snapshot."""

    def on_snapshot_sync_start(self, session: Session, source_id: str) -> None:  # noqa: B027 - optional
        """A full snapshot of *source_id* begins, which replaces all that came from there before.

        Called once for each snapshot, in the transaction that records it. A snapshot that a newer one replaces half
        way is not completed; the newer one begins instead.
        """

    def on_snapshot_sync_complete(self, session: Session, source_id: str) -> None:  # noqa: B027 - optional
        """All rows of the snapshot were applied, log entries come next.

        Called once for each snapshot, in the transaction that records it.
        """

    def on_rollback(self, session: Session, source_id: str, position: Position) -> None:
        """Undo what was applied of *source_id* after `position.seq`: its database was restored, and has lost that.

        Entries tell their number as `sequence`. Called in the transaction that sets the queue back; what the source has
        instead comes next. Leave it out, and the source sends a full snapshot.
        """
        raise NotImplementedError

    def on_error(self, source_id: str, error: Exception) -> None:  # noqa: B027 - optional
        """Something did not work and is tried again, or this process must stand by (`OwnershipLostError`).

        *source_id* is empty where the error concerns no single source.
        """


def undoes(listener: RoutingQueueListener) -> bool:
    """Tell whether *listener* can undo what it has applied."""
    left_out = RoutingQueueListener.on_rollback
    method = getattr(listener, "on_rollback", left_out)
    return getattr(method, "__func__", method) is not left_out
