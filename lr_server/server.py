"""The server of a site: sink and source in one process, as the owner of the site or standing by."""

import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import queues
from discovery.ownership import Ownership
from discovery.topology import StaticTopology, Topology
from lr_server import local
from lr_server.drain import drain
from lr_server.incarnation import adopt
from lr_server.metrics import MetricsServer
from lr_server.settings import Settings
from lr_server.source import Source
from lr_server.status import read_status
from queues.clock import SYSTEM_CLOCK, Clock
from queues.engine import end_idle_transactions
from queues.errors import ConfigurationError, OwnershipLostError
from queues.leases import Lease
from queues.logs import logger
from queues.migrate import require
from sink.service import SinkService, serve
from sink.writer import SinkWriter

log = logger("lrq.server")

#: The lease that makes a server the owner of its site.
LEASE = "server"


class LogReplicationServer:
    """Replicates a site's log to its peers, and takes theirs: one owner a site works, others stand by.

    Example:
        >>> with LogReplicationServer(settings) as server:
        ...     server.drain(timeout=30)
    """

    def __init__(self, settings: Settings, *, topology: Topology | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        """Open nothing yet; *topology* replaces the peers of the settings."""
        self._settings = settings
        self._topology = topology or StaticTopology(settings.peers)
        self._clock = clock
        # The same few connections again and again, whose statements are planned already.
        self._engine = queues.create_engine(settings.database_url, pool_size=16, max_overflow=64, pool_use_lifo=True)
        end_idle_transactions(self._engine, settings.lease_seconds)
        self._source: Source | None = None
        self._service: SinkService | None = None
        self._metrics: MetricsServer | None = None
        self._settled = threading.Event()
        self._stood_down = ""
        self._ownership = Ownership(
            self._engine, LEASE,
            on_acquired=self._begin, on_lost=self._end, ttl=settings.lease_seconds, clock=clock,
        )  # fmt: skip
        self._writer = SinkWriter(
            self._engine, settings.site,
            lease=lambda: self._ownership.lease, max_frame_bytes=settings.max_message_bytes, clock=clock,
        )  # fmt: skip

    def start(self) -> None:
        """Listen, and work as soon as this process owns the site; return when it does, or stands by.

        Where neither comes about within the time of a lease it returns too, and goes on trying; `status` says why.

        Raises `SetupError` when the database is not this site's or not migrated, `ConfigurationError` when an
        endpoint cannot be listened at, `StoreUnavailableError` when the database cannot be used.
        """
        try:
            self._listen()
        except BaseException:
            self._close()
            self._engine.dispose()
            raise
        local.offer(self._settings.site, self._writer)
        self._ownership.start()
        deadline = self._clock.monotonic() + self._settings.lease_seconds
        while not self._settled.is_set() and "standing by" not in self._ownership.reason:
            if self._clock.monotonic() > deadline:
                return
            self._clock.wait(self._settled, 0.02)

    def _listen(self) -> None:
        settings = self._settings
        require(self._engine, site_id=settings.site)
        if settings.credentials:
            settings.credentials.read()
        if settings.listen:
            self._service = serve(
                self._writer,
                settings.listen,
                credentials=settings.credentials,
                max_frame_bytes=settings.max_message_bytes,
            )
        if settings.metrics:
            self._metrics = MetricsServer(settings.metrics, self.status)

    def stop(self) -> None:
        """Finish what is in hand, give the site up, and stop listening. May be called twice."""
        local.withdraw(self._settings.site, self._writer)
        self._close()
        self._writer.stop()
        self._ownership.stop()
        self._engine.dispose()

    def _close(self) -> None:
        for served in (self._metrics, self._service):
            if served is not None:
                served.stop()
        self._metrics = self._service = None

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Where this server listens, with port 0 replaced by the real one."""
        return self._service.endpoints if self._service is not None else ()

    @property
    def is_owner(self) -> bool:
        """Whether this process works for the site; otherwise it stands by."""
        return self._source is not None

    def status(self) -> dict[str, Any]:
        """Return how everything stands, as `lrq status --json` prints it."""
        source = self._source
        if source is not None:
            with suppress(OwnershipLostError):
                source.supervisor.save()
        troubles = {} if source is None else dict(source.troubles)
        for name, trouble in (("sequencer", source and source.sequencer.trouble),
                              ("sessions", source and source.supervisor.trouble)):  # fmt: skip
            if trouble:
                troubles[name] = trouble
        role = {
            "owner": source is not None,
            "reason": self._stood_down or self._ownership.reason,
            "endpoints": list(self.endpoints),
            "metrics": self._metrics.address if self._metrics else "",
            "troubles": troubles,
        }
        return read_status(self._engine) | {"server": role}

    def drain(self, timeout: float) -> None:
        """Wait until every session has everything that is committed now, at most *timeout* seconds.

        Raises `WaitTimeoutError`, which names the sessions that do not.
        """
        source = self._source
        if source is None:
            raise ConfigurationError(f"this server does not work for its site: {self._ownership.reason}")
        drain(source, timeout, self._clock)

    # --- ownership --------------------------------------------------------------------------------------------

    def _begin(self, lease: Lease) -> None:
        self._stood_down = ""
        adopt(self._engine, lease)
        source = Source(self._engine, self._settings, self._topology, lease, clock=self._clock, on_lost=self._refused)
        source.start()
        self._source = source
        self._settled.set()
        log.info("owner of the site", site=self._settings.site_id, generation=lease.generation)

    def _end(self, error: Exception | None) -> None:
        source, self._source = self._source, None
        if error is not None:
            self._stood_down = str(error)
            log.warning("standing down", site=self._settings.site_id, reason=str(error))
        if source is not None:
            source.stop(None if error is None else str(error))

    def _refused(self, _error: OwnershipLostError) -> None:
        self._ownership.wake()
