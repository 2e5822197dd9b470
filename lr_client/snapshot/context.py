"""The contract of a snapshot provider: two calls, and the context that both receive."""

from typing import Protocol

from lr_client.snapshot.attempt import SnapshotAttempt
from lr_client.snapshot.cut import Cut
from queues.names import SiteId
from queues.positions import Position


class SnapshotProvider(Protocol):
    """The application's side of a snapshot sync.

    Threads of the transmitter call both methods; snapshots for different sites may be built at the same time.
    """

    def provide_full_state_data(self, context: "SnapshotContext") -> None:
        """Transmit the full state for `context.destination`, then call `context.mark_completed()`.

        Raising, or returning without `mark_completed()`, fails the attempt, and no site sees any of its entries.
        The next attempt follows after a backoff.
        """
        ...

    def cancel(self, context: "SnapshotContext") -> None:
        """Stop the work for *context*, whose `provide_full_state_data` still runs in its thread."""
        ...


class SnapshotContext:
    """One attempt to provide one snapshot. Safe to use from several threads."""

    __slots__ = ("attempt",)

    def __init__(self, attempt: SnapshotAttempt) -> None:
        #: Internal to lrq and open to change in any release; applications use the other members.
        self.attempt = attempt

    @property
    def sync_id(self) -> str:
        """The id of the snapshot sync; all attempts of one sync share it."""
        return self.attempt.claimed.sync_id

    @property
    def destination(self) -> SiteId:
        """The site that receives the snapshot.

        One snapshot serves all waiting sites until the provider reads this property, because the rows may then differ
        between sites. The first read limits the snapshot to one site. The other sites get snapshots of their own,
        each with its own context.
        """
        return self.attempt.one_destination()

    @property
    def reason(self) -> str:
        """Why the snapshot was requested."""
        return self.attempt.claimed.reason

    @property
    def snapshot(self) -> Cut:
        """The pinned cut: one state of the database to read all rows at."""
        return self.attempt.cut

    @property
    def base(self) -> Position:
        """The position of `snapshot` in the log; later entries are sent as the log."""
        return self.attempt.cut.base

    @property
    def cancelled(self) -> bool:
        """Whether the snapshot was cancelled; `transmit` then raises `SnapshotCancelledError`."""
        return self.attempt.cancelled

    def transmit(self, payload: bytes, *, item_key: str | None = None, progress: str | float | None = None) -> None:
        """Add one entry to the snapshot.

        *item_key* names the item that *payload* describes; within a snapshot no entry replaces another. `lrq status`
        shows *progress*: a text, or a share from 0 to 1. Entries are written in batches, so most calls return at once.

        Raises:
            SnapshotCancelledError: a newer request replaced this one, or another process took over; return then.
            PayloadTooLargeError: *payload* is above the limit.
            UsageError: the snapshot was completed already.
        """
        self.attempt.add(payload, item_key, progress)

    def mark_completed(self) -> None:
        """Publish all transmitted entries in one transaction; no entry can be added afterwards.

        Raises `SnapshotCancelledError` when the snapshot is no longer wanted; nothing was published then.
        """
        self.attempt.complete()
