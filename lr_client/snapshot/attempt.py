"""One attempt to build one snapshot: the rows are written first, then published together or not at all."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, Engine

from lr_client.arguments import checked_key, checked_payload
from lr_client.snapshot.cut import Cut
from queues.database import leases
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.errors import LrqError, OwnershipLostError, SnapshotCancelledError, UsageError
from queues.names import SiteId
from queues.send_log import wakeup
from queues.send_snapshot import attempts as snapshot_attempts
from queues.send_snapshot import hints
from queues.send_snapshot.block_packer import WriteLimits
from queues.send_snapshot.states import Attempt, Part
from queues.send_snapshot.writer import PartWriter, persistently


class SnapshotAttempt:
    """The part of a `SnapshotContext` that only the transmitter and Spark's provider use. Safe for several threads.

    Every write raises `SnapshotCancelledError` after a newer request or another process has replaced the attempt.
    """

    def __init__(
        self,
        engine: Engine,
        claimed: Attempt,
        lease: Lease,
        cut: Cut,
        *,
        limits: WriteLimits,
        cancel: threading.Event,
        alone: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin *claimed* at *cut*; *alone* is called when the provider builds for one site at a time."""
        self._engine = engine
        self._cancel = cancel
        self._alone = alone
        self._guard = threading.Lock()
        self._progress = ""
        self._completed = False
        self._writer = PartWriter(
            engine,
            claimed.sync_id,
            part=0,
            attempt=claimed.part_attempt(),
            limits=limits,
            in_batch=self._report,
            stop=cancel,
        )
        #: The attempt as stored in the database; `one_destination` reduces its sites to one.
        self.claimed = claimed
        self.lease = lease
        self.cut = cut
        #: The bounds of batches and payloads.
        self.limits = limits

    @property
    def build(self) -> str:
        """The name of the build, which every part of the attempt carries."""
        return self.claimed.build

    @property
    def destinations(self) -> tuple[SiteId, ...]:
        """All sites that receive the snapshot; each of them gets the same rows."""
        return self.claimed.destination, *self.claimed.others

    @property
    def cancelled(self) -> bool:
        """Whether the snapshot is no longer wanted."""
        return self._cancel.is_set()

    @property
    def completed(self) -> bool:
        """Whether the snapshot was published."""
        return self._completed

    def settled(self) -> bool:
        """Wait for a publication under way, then return `completed`."""
        with self._guard:
            return self._completed

    def one_destination(self) -> SiteId:
        """Return the first site, and put the requests of the other sites back, to be built one by one."""
        with self._guard:
            if self.claimed.others and not self._completed and not self.cancelled:
                self._give_others_back()
            return self.claimed.destination

    def check(self) -> None:
        """Raise `SnapshotCancelledError` when the snapshot is no longer wanted."""
        if self._cancel.is_set():
            raise snapshot_attempts.cancelled(self.claimed)

    # --- rows -------------------------------------------------------------------------------------------------

    def add(self, payload: bytes, item_key: str | None, progress: str | float | None) -> None:
        """Add one entry; see `SnapshotContext.transmit`."""
        data = checked_payload(payload, self.limits.payload_bytes)
        key = checked_key(item_key, "item_key")
        with self._guard:
            self._check_open()
            if progress is not None:
                self._progress = progress if isinstance(progress, str) else f"{progress:.0%}"
            self._writer.add(data, key)

    def add_many(self, entries: Iterable[tuple[bytes, str | None]], progress: str) -> None:
        """Add payloads with their item keys, faster than `add` for each.

        If a payload or key is refused, none is added. See `SnapshotContext.transmit` for the errors.
        """
        limit = self.limits.payload_bytes
        checked = [(checked_payload(payload, limit), checked_key(key, "item_key")) for payload, key in entries]
        with self._guard:
            self._check_open()
            self._progress = progress
            self._writer.add_many([payload for payload, _ in checked], [key for _, key in checked])

    def expect(self, rows: int) -> None:
        """Set the approximate number of rows, from which `lrq status` computes the finished share."""
        with self._noticing(), writing(self._engine) as connection:
            snapshot_attempts.expect(connection, self.claimed, max(0, rows))

    def note(self, rows: int, words: str) -> None:
        """Report in `lrq status` that other processes have written *rows* so far; *words* describes the progress."""
        with self._noticing(), writing(self._engine) as connection:
            snapshot_attempts.report(connection, self.claimed, rows=rows, payload_bytes=0, progress=words)

    # --- the end ----------------------------------------------------------------------------------------------

    def complete(self) -> None:
        """Publish all added entries; see `SnapshotContext.mark_completed`."""
        with self._guard:
            self._check_open()
            self._writer.flush()
            self._publish([self._writer.written])

    def publish(self, parts: Iterable[Part]) -> None:
        """Publish exactly the rows of *parts*, which other processes have written; replaces `complete`.

        Raises `SnapshotFailedError` when a part has fewer rows than it claims; nothing was published then.
        """
        all_parts = list(parts)
        with self._guard:
            self._check_open()
            self._publish(all_parts)

    def _tell_servers(self) -> None:
        wakeup.wake_server(self.cut.base.branch)
        # The snapshot is published; a server that misses the hint looks again soon.
        with suppress(LrqError), reading(self._engine) as connection:
            hints.send(hints.names_at(connection).servers())

    def _check_open(self) -> None:
        if self._completed:
            raise UsageError(f"snapshot {self.claimed.sync_id} was completed already: nothing can be added to it")
        self.check()

    def _give_others_back(self) -> None:
        with self._noticing(), writing(self._engine) as connection:
            leases.check(connection, self.lease)
            self.claimed = snapshot_attempts.keep_one(connection, self.claimed)
        self._alone()

    def _report(self, connection: Connection, written: Part) -> None:
        with self._noticing():
            leases.check(connection, self.lease)
            snapshot_attempts.report(
                connection, self.claimed, rows=written.rows, payload_bytes=written.bytes, progress=self._progress
            )

    def _publish(self, parts: list[Part]) -> None:
        self.cut.require_unchanged()

        def publish(again: bool) -> None:
            with self._noticing(), writing(self._engine) as connection:
                if again and snapshot_attempts.is_published(connection, self.claimed):
                    return
                leases.check(connection, self.lease)
                snapshot_attempts.publish(connection, self.claimed, base=self.cut.base, parts=parts)

        persistently(publish, patience=self.limits.patience, stop=self._cancel)
        self._completed = True
        self._tell_servers()

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Mark the attempt cancelled when the block raises because another attempt replaced it or the lease is lost."""
        try:
            yield
        except SnapshotCancelledError:
            self._cancel.set()
            raise
        except OwnershipLostError as lost:
            self._cancel.set()
            sentence = f"snapshot {self.claimed.sync_id} is built by another process now: {lost}"
            raise SnapshotCancelledError(sentence) from lost
