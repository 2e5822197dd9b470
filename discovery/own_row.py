"""The row of one server among those of its site: its facts for the others, and its renewals."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from sqlalchemy import Engine

from discovery.threads import OnEnded, watched
from queues.clock import Clock
from queues.database import servers
from queues.leadership import ServersView, TopologyFacts

#: The longest call during which renewals continue, in terms of the lease.
_LONGEST_CALL: Final = 30


class _Told(NamedTuple):
    """The facts about a server that its row tells the other servers."""

    endpoints: tuple[str, ...]
    topology: TopologyFacts
    sink_trouble: str


class OwnRow:
    """Registers one server and renews its row: each third of *ttl* seconds, for three quarters of them.

    A failed renewal is tried again after a tenth of *ttl*, so some may fail before the row expires.
    """

    def __init__(
        self,
        engine: Engine,
        server: str,
        *,
        ranges: int,
        ttl: float,
        clock: Clock,
        endpoints: Callable[[], Sequence[str]],
        topology: Callable[[], TopologyFacts],
        sink_trouble: Callable[[], str],
        on_error: Callable[[Exception], None],
    ) -> None:
        """*on_error* gets an error of a renewal during a call."""
        self._engine = engine
        self._server = server
        self._ranges = ranges
        self._ttl = ttl
        self._clock = clock
        self._endpoints = endpoints
        self._topology = topology
        self._sink_trouble = sink_trouble
        self._on_error = on_error
        self._registered: _Told | None = None
        self._due = clock.monotonic()
        #: The seconds for which the server counts as living after a renewal.
        self.term = ttl * 3 / 4

    @property
    def is_registered(self) -> bool:
        """Whether the server has a row, to its knowledge."""
        return self._registered is not None

    @property
    def is_outdated(self) -> bool:
        """Whether the registered row tells other facts than those of now."""
        return self._registered != self._to_tell()

    @property
    def pause(self) -> float:
        """The seconds until the next renewal, at least 0."""
        return max(self._due - self._clock.monotonic(), 0.0)

    def register(self) -> None:
        """Write the row with the facts of now; see `servers.register` for the errors."""
        told = self._to_tell()
        # The term of the row begins no earlier than here.
        self._due = self._clock.monotonic() + self._ttl / 3
        servers.register(
            self._engine, self._server, told.endpoints,
            count=self._ranges, term=self.term, topology=told.topology, sink_trouble=told.sink_trouble,
        )  # fmt: skip
        self._registered = told

    def renew_if_due(self) -> ServersView | None:
        """Return the look of a renewal, if one is due; a refused one means that the row has expired."""
        if self._registered is None or self.pause:
            return None
        view = self._renew()
        if view is None:
            self.forget()
        return view

    def forget(self) -> None:
        """Take the row for expired, so that other servers may lead the ranges."""
        self._registered = None

    def remove(self) -> None:
        """Delete the row."""
        servers.remove(self._engine, self._server)

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
                if self._renew() is None:
                    return
                pause = self.pause
            except Exception as error:  # noqa: BLE001 - told, and tried again
                self._on_error(error)
                pause = self._ttl / 10

    def _renew(self) -> ServersView | None:
        began = self._clock.monotonic()
        view = servers.renew(self._engine, self._server, self.term)
        self._due = began + self._ttl / 3
        return view

    def _to_tell(self) -> _Told:
        return _Told(tuple(self._endpoints()), self._topology(), self._sink_trouble())
