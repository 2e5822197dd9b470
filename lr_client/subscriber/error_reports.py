"""The errors of one subscription, reported to the log and to its listener."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lr_client.subscriber.listener import RoutingQueueListener
from queues.logs import logger
from queues.names import ClientName
from queues.receive.failures import describe

_log = logger("lrq.subscriber")


class ErrorReports:
    """Reports errors to one listener, and marks the threads that run its code: no thread can wait for itself."""

    def __init__(self, listener: RoutingQueueListener, client: ClientName) -> None:
        self._listener = listener
        self._client = client
        self._thread = threading.local()

    def report(self, source: str, error: Exception) -> None:
        """Log *error* and call the listener's `on_error`; *source* is "" for an error that concerns no single queue."""
        _log.warning("delivery failed", client=self._client, source=source, error=describe(error))
        try:
            with self.listening():
                self._listener.on_error(source, error)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - an error of the application; delivery continues
            _log.error("on_error raised", client=self._client, source=source, error=describe(problem))

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
