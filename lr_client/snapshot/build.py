"""Run one attempt: call the provider in a thread of its own, and record the outcome."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from lr_client.snapshot.attempt import SnapshotAttempt
from lr_client.snapshot.context import SnapshotContext, SnapshotProvider
from lr_client.snapshot.cut import open_cut
from queues.database import leases
from queues.database.leases import Lease
from queues.database.transactions import writing
from queues.error_facts import facts_of
from queues.errors import LrqError, OwnershipLostError
from queues.logs import logger
from queues.repeats import Repeats
from queues.send_snapshot import attempts as snapshot_attempts
from queues.send_snapshot.block_packer import WriteLimits
from queues.send_snapshot.states import Attempt
from queues.words import in_words

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """The settings of all attempts of one transmitter.

    `backoff(n)` returns the seconds to wait after failed attempt number n, from 1. `alone` is called when the provider
    builds for one site at a time. `repeats` knows the failures of the provider that were logged with a traceback.
    """

    limits: WriteLimits
    backoff: Callable[[int], float]
    scratch: Path | None
    alone: Callable[[], None] = lambda: None
    repeats: Repeats = field(default_factory=Repeats)


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
        #: The seconds that the transmitter waits before its next build, because this failure could not be stored.
        self.rest = 0.0

    def start(self, then: Callable[["Build"], None]) -> threading.Thread:
        """Run the provider in a new thread, which calls *then* at the end; return the thread."""

        def work() -> None:
            try:
                self._run()
            finally:
                then(self)

        thread = threading.Thread(target=work, name=f"lrq-snapshot-{self.attempt.sync_id[:8]}", daemon=True)
        thread.start()
        return thread

    def cancel(self) -> None:
        """End the attempt: `transmit` raises from now on, and a new thread calls the provider's `cancel` once.

        After `mark_completed()` the provider's `cancel` is not called.
        """
        self._cancel.set()
        with self._guard:
            context, told = self._context, self._told
            self._told = self._told or context is not None
        if context is not None and not told:
            threading.Thread(
                target=self._cancel_provider, args=(context,), name="lrq-snapshot-cancel", daemon=True
            ).start()

    def give_up(self, why: str) -> None:
        """Cancel the attempt, and let the next transmitter begin at once instead of after the backoff."""
        self._given_up = why
        self.cancel()

    def hand_back(self, error: str, *, cause: BaseException | None = None) -> None:
        """Return the request to the queue for another attempt, unless the snapshot is published or replaced.

        The log gets the class of *cause*, without its message, and a traceback at the first failure of this kind.
        """
        backoff = self._settings.backoff(self.attempt.number)
        retry_after = 0.0 if self._given_up else backoff
        error = self._given_up or error
        try:
            with writing(self._engine) as connection:
                leases.check(connection, self._lease)
                is_ours = snapshot_attempts.fail(connection, self.attempt, error, retry_after=retry_after)
        except OwnershipLostError:
            return  # the next owner of the lease begins a new attempt
        except Exception as problem:  # noqa: BLE001 - without the backoff in the database, the transmitter waits
            self.rest = backoff
            log.warning("a failed attempt cannot be stored", sync_id=self.attempt.sync_id, error=in_words(problem))
            is_ours = True
        if is_ours:
            self._write(error, cause)

    def _write(self, error: str, cause: BaseException | None) -> None:
        fields: dict[str, Any] = {"sync_id": self.attempt.sync_id}
        if cause is None or isinstance(cause, LrqError):
            log.warning("snapshot attempt failed", error=error, **fields)
            return
        # The message of a provider's error may hold a payload; `lrq snapshot list` shows the message on request.
        facts = facts_of(cause)
        trace = facts.trace if self._settings.repeats.is_first(self.attempt.client, cause) else ""
        fields |= {"error": facts.error_class, "place": facts.place, "shown_by": "lrq snapshot list"}
        log.warning("snapshot attempt failed", trace=trace, **fields)

    def _cancel_provider(self, context: SnapshotContext) -> None:
        if context.attempt.settled():
            return
        try:
            self._provider.cancel(context)
        except BaseException as error:  # noqa: BLE001 - an error of the application; the attempt ends all the same
            facts = facts_of(error)
            log.warning(
                "a snapshot provider's cancel failed",
                sync_id=context.sync_id, error=facts.error_class, place=facts.place, trace=facts.trace,
            )  # fmt: skip

    def _run(self) -> None:
        try:
            error = self._provide()
        except BaseException as failure:  # noqa: BLE001 - an error of the application ends only this attempt
            self.hand_back(in_words(failure), cause=failure)
            return
        if error:
            self.hand_back(error)

    def _provide(self) -> str:
        """Pin a cut and call the provider; return the reason of a failure, or "" if the snapshot was published."""
        with open_cut(self._engine, folder=self._settings.scratch, check=self._check) as cut:
            attempt = SnapshotAttempt(
                self._engine,
                self.attempt,
                self._lease,
                cut,
                limits=self._settings.limits,
                cancel=self._cancel,
                alone=self._settings.alone,
            )
            context = SnapshotContext(attempt)
            with writing(self._engine) as connection:
                leases.check(connection, self._lease)
                snapshot_attempts.pin(connection, self.attempt, cut.base)
            with self._guard:
                self._context = context
            self._check()
            log.info("snapshot is being built", sync_id=context.sync_id, destinations=list(attempt.destinations))
            self._provider.provide_full_state_data(context)
            with self._guard:
                self._context = None
            if attempt.completed:
                self._settings.repeats.forget(self.attempt.client)
                log.info("snapshot published", sync_id=context.sync_id, destinations=list(attempt.destinations))
        return "" if attempt.completed else "the provider returned without mark_completed()"

    def _check(self) -> None:
        if self._cancel.is_set():
            raise snapshot_attempts.cancelled(self.attempt)
