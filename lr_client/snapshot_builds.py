"""Carrying out attempts: the provider in a thread of its own, its outcome written down."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from lr_client.cut import open_cut
from lr_client.snapshot_context import SnapshotContext, SnapshotProvider
from queues import leases
from queues.errors import LrqError, OwnershipLostError, StoreUnavailableError
from queues.leases import Lease
from queues.logs import logger
from queues.snapshots import attempts as snapshot_attempts
from queues.snapshots.batch import WriteLimits
from queues.snapshots.states import Attempt
from queues.transactions import writing

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How attempts are made.

    `backoff` tells how many seconds to wait after the n-th attempt failed (from 1); `alone` is called when the provider
    turns out to build for one site at a time.
    """

    limits: WriteLimits
    backoff: Callable[[int], float]
    scratch: Path | None
    alone: Callable[[], None] = lambda: None


class Build:
    """One attempt in progress."""

    def __init__(
        self, engine: Engine, attempt: Attempt, lease: Lease, provider: SnapshotProvider, settings: BuildSettings
    ) -> None:
        self.attempt = attempt
        self._engine = engine
        self._lease = lease
        self._provider = provider
        self._settings = settings
        self._cancel = threading.Event()
        self._guard = threading.Lock()
        self._context: SnapshotContext | None = None
        self._told = False
        self._given_up = ""

    def start(self, then: Callable[["Build"], None]) -> threading.Thread:
        """Run the provider in a thread; call *then* in it at the end."""

        def work() -> None:
            try:
                self._run()
            finally:
                then(self)

        thread = threading.Thread(target=work, name=f"lrq-snapshot-{self.attempt.sync_id[:8]}", daemon=True)
        thread.start()
        return thread

    def cancel(self) -> None:
        """End it: `transmit` raises from now on, and the provider is told once, in a thread of its own.

        It is not told when it has completed the snapshot already.
        """
        self._cancel.set()
        with self._guard:
            context, told = self._context, self._told
            self._told = self._told or context is not None
        if context is not None and not told:
            threading.Thread(target=self._tell, args=(context,), name="lrq-snapshot-cancel", daemon=True).start()

    def give_up(self, why: str) -> None:
        """Cancel it, so that the next transmitter can begin at once instead of after the backoff."""
        self._given_up = why
        self.cancel()

    def hand_back(self, error: str) -> None:
        """Give the request back, to be tried again; nothing happens when the snapshot is published or not its own."""
        retry_after = 0.0 if self._given_up else self._settings.backoff(self.attempt.number)
        # Whoever has taken over, or holds the lease when the database is back, begins a new attempt in any case.
        with suppress(OwnershipLostError, StoreUnavailableError), writing(self._engine) as connection:
            leases.check(connection, self._lease)
            error = self._given_up or error
            if snapshot_attempts.fail(connection, self.attempt, error, retry_after=retry_after):
                log.warning("snapshot attempt failed", sync_id=self.attempt.sync_id, error=error)

    def _tell(self, context: SnapshotContext) -> None:
        if context.settled():
            return
        try:
            self._provider.cancel(context)
        except Exception:
            # The application's code, and the attempt is over in any case.
            log.warning("a snapshot provider's cancel failed", sync_id=context.sync_id, exc_info=True)

    def _run(self) -> None:
        try:
            error = self._provide()
        except (Exception, SystemExit) as failure:  # noqa: BLE001 - whatever the application raises ends only this attempt
            error = in_words(failure)
        if error:
            self.hand_back(error)

    def _provide(self) -> str:
        """Return what went wrong; nothing if the snapshot was published."""
        with open_cut(self._engine, folder=self._settings.scratch, check=self._check) as cut:
            context = SnapshotContext(
                self._engine,
                self.attempt,
                self._lease,
                cut,
                limits=self._settings.limits,
                cancel=self._cancel,
                alone=self._settings.alone,
            )
            with writing(self._engine) as connection:
                leases.check(connection, self._lease)
                snapshot_attempts.pin(connection, self.attempt, cut.base)
            with self._guard:
                self._context = context
            self._check()
            log.info("snapshot is being built", sync_id=context.sync_id, destinations=list(context.destinations))
            self._provider.provide_full_state_data(context)
            with self._guard:
                self._context = None
            if context.completed:
                log.info("snapshot published", sync_id=context.sync_id, destinations=list(context.destinations))
        return "" if context.completed else "the provider returned without mark_completed()"

    def _check(self) -> None:
        if self._cancel.is_set():
            raise snapshot_attempts.cancelled(self.attempt)


def in_words(error: BaseException) -> str:
    """Say what went wrong in one line: our own sentence, or a foreign error's class and first line."""
    first = str(error).strip().partition("\n")[0]
    return first if isinstance(error, LrqError) else f"{type(error).__name__}: {first}"
