"""The errors of one subscription, reported to the log and to its listener."""

import math
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.observer import DeliveryObserver
from queues.clock import Clock
from queues.error_facts import facts_of
from queues.errors import ListenerError, LrqError, OwnershipLostError
from queues.failure_log import FailureLog, FailureRow
from queues.logs import logger
from queues.names import ClientName
from queues.repeats import Repeats
from queues.thread_lack import is_lack
from queues.words import describe, in_words

#: The command that shows the messages of a listener's errors.
_SHOWN_BY: Final = "lrq park list"
#: The seconds between two lines about a lack of threads. Each part meets the lack by itself, while others go on.
_LACK_PAUSE: Final = 60.0

_log = logger("lrq.subscriber")


class ErrorReports:
    """Reports errors to one listener, and marks the threads that run its code: no thread can wait for itself."""

    def __init__(
        self, listener: RoutingQueueListener, client: ClientName, observer: DeliveryObserver, clock: Clock
    ) -> None:
        self._listener = listener
        self._observer = observer
        self._client = client
        self._clock = clock
        self._failures = FailureLog()
        self._guard = threading.Lock()
        self._repeats = Repeats()
        self._lack_told = -math.inf
        self._thread = threading.local()

    def report(self, source: str, error: Exception, work: Hashable = None) -> None:
        """Log *error* and call the listener's `on_error`; *source* is "" for an error that concerns no single queue.

        The first of a row of equal errors is logged with its traceback, if the application raised it. The log never has
        the message of an application's error, which may hold a payload. Other errors of *work* are those of an
        `FailureLog`, until that work succeeds; without *work* each is logged.
        """
        self._write(source, error, work)
        if isinstance(error, OwnershipLostError):
            # The database has answered that another one works now.
            self.succeeded(work)
        try:
            with self.listening():
                self._observer.failed(source, error)
                self._listener.on_error(source, error)
        except BaseException as problem:  # noqa: BLE001 - an error of the application; delivery continues
            facts = facts_of(problem)
            _log.error(
                "on_error raised", client=self._client, source=source, error=facts.error_class, place=facts.place
            )

    def succeeded(self, work: Hashable) -> None:
        """Note that *work* has used the database; log the end of a row of failures."""
        with self._guard:
            row = self._failures.end(work, self._clock.monotonic())
        if row is not None:
            _log.info("delivery succeeds again", client=self._client, failures=row.failures, seconds=row.seconds)

    def ended(self, work: Hashable) -> None:
        """Expect no success of *work* any more."""
        with self._guard:
            self._failures.forget(work)

    def _write(self, source: str, error: Exception, work: Hashable) -> None:
        fields: dict[str, Any] = {"client": self._client, "source": source}
        is_first = _is_of_application(error) and self._repeats.is_first(source, error)
        if not source and is_lack(error):
            if not self._tells_lack():
                return
        elif work is not None and not (source and _is_of_application(error)):
            row = self._noted(error, work)
            if row is None:
                return
            if row.failures > 1:
                fields.update(failures=row.failures, seconds=row.seconds)
        if not source:
            # No listener's call is part of such a failure.
            has_trace = is_first and not is_lack(error)
            _log.warning("delivery failed", exc_info=has_trace and error, error=describe(error), **fields)
        elif not _is_of_application(error):
            _log.warning("delivery failed", error=in_words(error), **fields)
        else:
            facts = facts_of(error)
            words = in_words(error) if isinstance(error, LrqError) else facts.error_class
            trace = facts.trace if is_first else ""
            _log.warning("delivery failed", trace=trace, error=words, place=facts.place, shown_by=_SHOWN_BY, **fields)

    def _tells_lack(self) -> bool:
        with self._guard:
            now = self._clock.monotonic()
            is_due = now - self._lack_told >= _LACK_PAUSE
            if is_due:
                self._lack_told = now
        return is_due

    def _noted(self, error: Exception, work: Hashable) -> FailureRow | None:
        with self._guard:
            return self._failures.note(work, describe(error), self._clock.monotonic())

    def recovered(self, source: str) -> None:
        """Note that a delivery from *source* has succeeded, so that the next error begins a new row."""
        self._repeats.forget(source)

    @property
    def in_listener(self) -> bool:
        """Whether this thread may be inside a call of the listener."""
        return getattr(self._thread, "listens", False)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Mark this thread, until the end of the block, as one that may call the listener."""
        before = self.in_listener
        self._thread.listens = True
        try:
            yield
        finally:
            self._thread.listens = before


def _is_of_application(error: Exception) -> bool:
    return error.__cause__ is not None if isinstance(error, ListenerError) else not isinstance(error, LrqError)
