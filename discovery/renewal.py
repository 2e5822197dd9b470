"""The time for which a server counts as living: its renewals, also during long calls."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Engine

from discovery.threads import OnEnded, watched
from queues.clock import Clock
from queues.database import servers

#: The longest call during which renewals continue, in terms of the lease.
_LONGEST_CALL: Final = 30


class Renewal:
    """Renews the row of one server: each third of *ttl* seconds, for three quarters of them.

    A failed renewal is tried again after a tenth of *ttl*, so some may fail before the row expires.
    """

    def __init__(
        self, engine: Engine, server: str, *, ttl: float, clock: Clock, on_error: Callable[[Exception], None]
    ) -> None:
        """*on_error* gets an error of a renewal during a call."""
        self._engine = engine
        self._server = server
        self._ttl = ttl
        self._clock = clock
        self._on_error = on_error
        self._due = clock.monotonic()
        #: The seconds for which the server counts as living after a renewal.
        self.term = ttl * 3 / 4

    @property
    def pause(self) -> float:
        """The seconds until the next renewal, at least 0."""
        return max(self._due - self._clock.monotonic(), 0.0)

    def note(self) -> None:
        """Count the time anew, before the server is registered."""
        self._due = self._clock.monotonic() + self._ttl / 3

    def renew(self) -> bool:
        """Renew the row; return False if it has expired, so that others may lead the ranges."""
        began = self._clock.monotonic()
        renewed = servers.renew(self._engine, self._server, self.term)
        self._due = began + self._ttl / 3
        return renewed

    @contextmanager
    def during_call(self, on_ended: OnEnded) -> Iterator[None]:
        """Renew in another thread while the block runs; a block without end loses the ranges."""
        ended = threading.Event()
        thread = watched("lrq-servers-renewal", lambda: self._renew_until(ended), on_ended)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _renew_until(self, ended: threading.Event) -> None:
        limit = self._clock.monotonic() + _LONGEST_CALL * self._ttl
        pause = self.pause
        while not self._clock.wait(ended, pause) and self._clock.monotonic() < limit:
            try:
                if not self.renew():
                    return
                pause = self.pause
            except Exception as error:  # noqa: BLE001 - told, and tried again
                self._on_error(error)
                pause = self._ttl / 10
