"""What a snapshot provider implements, and what it is given to do it."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy import Connection, Engine

from lr_client.cut import Cut
from lr_client.limits import checked_key, checked_payload
from queues import leases
from queues.errors import OwnershipLostError, SnapshotCancelledError, UsageError
from queues.leases import Lease
from queues.log import doorbell
from queues.names import SiteId
from queues.positions import Position
from queues.snapshots import attempts as snapshot_attempts
from queues.snapshots.batch import WriteLimits
from queues.snapshots.states import Attempt, Part
from queues.snapshots.writer import PartWriter, persistently
from queues.transactions import reading, writing


class SnapshotProvider(Protocol):
    """The application's side of a snapshot sync.

    Both are called in threads of the transmitter; several snapshots, for different sites, may run at a time.
    """

    def provide_full_state_data(self, context: "SnapshotContext") -> None:
        """Transmit everything that `context.destination` is owed, then call `context.mark_completed()`.

        Raising, or returning without `mark_completed()`, fails the attempt: none of it is ever seen, and it is
        tried again with backoff.
        """
        ...

    def cancel(self, context: "SnapshotContext") -> None:
        """Hear that *context* is of no use any more, while `provide_full_state_data` still runs in its thread."""
        ...


class SnapshotContext:
    """One attempt to provide one snapshot. Safe to use from several threads."""

    def __init__(
        self,
        engine: Engine,
        attempt: Attempt,
        lease: Lease,
        cut: Cut,
        *,
        limits: WriteLimits,
        cancel: threading.Event,
        alone: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._alone = alone
        self._limits = limits
        self._cancel = cancel
        self._guard = threading.Lock()
        self._progress = ""
        self._completed = False
        self._writer = PartWriter(
            engine,
            attempt.sync_id,
            part=0,
            attempt=attempt.part_attempt(),
            limits=limits,
            in_batch=self._report,
            stop=cancel,
        )
        self.attempt = attempt
        self.lease = lease
        self.snapshot = cut

    @property
    def sync_id(self) -> str:
        """Which snapshot sync this is; a retry has the same."""
        return self.attempt.sync_id

    @property
    def destination(self) -> SiteId:
        """The site that the snapshot is for.

        A snapshot is built once for all sites that wait, as long as what they get cannot differ: the first look at
        this makes it one site's own. The other sites' then follow, each with a context of its own.
        """
        with self._guard:
            if self.attempt.others and not self._completed and not self.cancelled:
                self._make_its_own()
            return self.attempt.destination

    @property
    def destinations(self) -> tuple[SiteId, ...]:
        """All sites that the snapshot is for; the same rows go to each of them."""
        return self.attempt.destination, *self.attempt.others

    @property
    def reason(self) -> str:
        """Why it was asked for."""
        return self.attempt.reason

    @property
    def base(self) -> Position:
        """The position in the log that `snapshot` was taken at: what came later follows as the log."""
        return self.snapshot.base

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the result any more; `transmit` raises `SnapshotCancelledError` then."""
        return self._cancel.is_set()

    @property
    def completed(self) -> bool:
        """Whether the snapshot was published."""
        return self._completed

    def settled(self) -> bool:
        """Return `completed`, once it is known whether an attempt to publish that is under way succeeds."""
        with self._guard:
            return self._completed

    @property
    def limits(self) -> WriteLimits:
        """The bounds of batches and payloads."""
        return self._limits

    def transmit(self, payload: bytes, *, item_key: str | None = None, progress: str | float | None = None) -> None:
        """Add one entry to the snapshot.

        *item_key* names the item that the payload is of; *progress*, words or a share between 0 and 1, is shown by
        `lrq status`. Returns at once most of the time: entries are written in batches.

        Raises:
            SnapshotCancelledError: a newer request replaced this one, or another process took it over: return.
            PayloadTooLargeError: *payload* is above the limit.
            UsageError: the snapshot was completed already.
        """
        data = checked_payload(payload, self._limits.payload_bytes)
        key = checked_key(item_key, "item_key")
        with self._guard:
            self._check_open()
            if progress is not None:
                self._progress = progress if isinstance(progress, str) else f"{progress:.0%}"
            self._writer.add(data, key)

    def mark_completed(self) -> None:
        """Publish all that was transmitted, at once and for good; no other entry can follow.

        Raises `SnapshotCancelledError` when it is no longer wanted: then nothing was published.
        """
        with self._guard:
            self._check_open()
            self._writer.flush()
            self._publish([self._writer.written])

    def publish(self, parts: Iterable[Part]) -> None:
        """Publish exactly the rows of *parts*, which were written beside this object, instead of `mark_completed()`.

        Raises `SnapshotCancelledError` when the snapshot is no longer wanted, `SnapshotFailedError` when a part does
        not have the rows that it claims: then nothing was published.
        """
        all_parts = list(parts)
        with self._guard:
            self._check_open()
            self._publish(all_parts)

    def adopt(self) -> None:
        """Note that a process of the provider's has published this attempt.

        Raises `SnapshotCancelledError` when it has not, or when something newer has cancelled it since.
        """
        with self._guard, reading(self._engine) as connection:
            if not snapshot_attempts.is_published(connection, self.attempt):
                raise snapshot_attempts.cancelled(self.attempt)
            self._completed = True
        doorbell.ring(self.base.branch)

    def expect(self, rows: int) -> None:
        """Say about how many rows there will be, so that others see how much of it is done."""
        with self._noticing(), writing(self._engine) as connection:
            snapshot_attempts.expect(connection, self.attempt, max(0, rows))

    def check(self) -> None:
        """Raise `SnapshotCancelledError` when nobody wants the result any more."""
        if self._cancel.is_set():
            raise snapshot_attempts.cancelled(self.attempt)

    def _check_open(self) -> None:
        if self._completed:
            raise UsageError(f"snapshot {self.sync_id} was completed already: nothing can be added to it")
        self.check()

    def _make_its_own(self) -> None:
        with self._noticing(), writing(self._engine) as connection:
            leases.check(connection, self.lease)
            self.attempt = snapshot_attempts.keep_one(connection, self.attempt)
        self._alone()

    def note(self, rows: int, words: str) -> None:
        """Show that *rows* are written beside this object so far; raise `SnapshotCancelledError` when of no use."""
        with self._noticing(), writing(self._engine) as connection:
            snapshot_attempts.report(connection, self.attempt, rows=rows, payload_bytes=0, progress=words)

    def _report(self, connection: Connection, written: Part) -> None:
        with self._noticing():
            leases.check(connection, self.lease)
            snapshot_attempts.report(
                connection, self.attempt, rows=written.rows, payload_bytes=written.bytes, progress=self._progress
            )

    def _publish(self, parts: list[Part]) -> None:
        def publish(again: bool) -> None:
            with self._noticing(), writing(self._engine) as connection:
                if again and snapshot_attempts.is_published(connection, self.attempt):
                    return
                leases.check(connection, self.lease)
                snapshot_attempts.publish(connection, self.attempt, base=self.base, parts=parts)

        persistently(publish, patience=self._limits.patience, stop=self._cancel)
        self._completed = True
        doorbell.ring(self.base.branch)

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Remember that the attempt is cancelled when the database says so."""
        try:
            yield
        except SnapshotCancelledError:
            self._cancel.set()
            raise
        except OwnershipLostError as lost:
            self._cancel.set()
            raise SnapshotCancelledError(f"snapshot {self.sync_id} is built by another process now: {lost}") from lost
