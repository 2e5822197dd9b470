"""The status of a request for a snapshot."""

from dataclasses import dataclass
from typing import Any, Final

from queues.clock import iso
from queues.names import ClientName, SiteId
from queues.states import PROVIDER_STOPPED, SnapshotState

#: After this number of failures in a row, a snapshot counts as failed; the provider tries again all the same.
FAILING_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """A request for a snapshot: `share` is between 0 and 1; None, here and below, for an unknown number.

    `cut_seconds` is the age of the cut that the database holds for the build. `bytes` are bytes of payload.
    """

    sync_id: str
    client: ClientName
    destination: SiteId
    state: SnapshotState
    reason: str
    attempt: int
    rows: int
    bytes: int
    progress: str
    expected_rows: int
    sent_rows: int
    share: float | None
    rows_per_second: float | None
    seconds_left: float | None
    cut_seconds: float | None
    error: str
    requested_us: int
    updated_us: int

    @property
    def failed_attempts(self) -> int:
        """The attempts of an unfinished snapshot that have failed until now; 0 after the provider was stopped."""
        if not self._failure or self.state not in (SnapshotState.REQUESTED, SnapshotState.BUILDING):
            return 0
        return self.attempt - (self.state is SnapshotState.BUILDING)

    @property
    def told_state(self) -> SnapshotState:
        """The state as monitors see it: failed after `FAILING_ATTEMPTS` failures, though the provider tries again."""
        return SnapshotState.FAILED if self.failed_attempts >= FAILING_ATTEMPTS else self.state

    @property
    def is_failing(self) -> bool:
        """Whether the snapshot has failed, or its last attempt has."""
        is_waiting = self.state is SnapshotState.REQUESTED and bool(self._failure)
        return is_waiting or self.told_state is SnapshotState.FAILED

    @property
    def _failure(self) -> str:
        return "" if self.error == PROVIDER_STOPPED else self.error

    def as_json(self) -> dict[str, Any]:
        """Return an item of `snapshots`."""
        return {
            "sync_id": self.sync_id,
            "client": self.client,
            "destination": self.destination,
            "state": self.state.value,
            "reason": self.reason,
            "attempt": self.attempt,
            "failed_attempts": self.failed_attempts,
            "rows": self.rows,
            "bytes": self.bytes,
            "progress": self.progress,
            "expected_rows": self.expected_rows,
            "sent_rows": self.sent_rows,
            "share": self.share,
            "rows_per_second": self.rows_per_second,
            "seconds_left": self.seconds_left,
            "cut_seconds": self.cut_seconds,
            "error": self.error,
            "requested_at": iso(self.requested_us),
            "updated_at": iso(self.updated_us),
        }
