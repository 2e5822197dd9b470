"""The source role of a server while it owns its site: log, feed, sequencer, sessions, periodic work."""

from collections.abc import Callable

from sqlalchemy import Engine

from discovery.topology import Topology, split_endpoints
from lr_server import transfer
from lr_server.backoff import Backoff
from lr_server.feed import LiveFeed
from lr_server.jobs import Jobs
from lr_server.local import find
from lr_server.outgoing import Outgoing
from lr_server.sequencer import Sequencer
from lr_server.session import SessionLimits, Surroundings
from lr_server.settings import Settings
from lr_server.stream import Paths
from lr_server.supervisor import Supervisor
from queues import leases, snapshots
from queues.clock import Clock, chosen, now_us
from queues.errors import OwnershipLostError
from queues.leases import Lease
from queues.log.doorbell import Bell
from queues.log.opening import open_log
from queues.log.port import Limits, Retention
from queues.logs import logger
from queues.migrate import require
from queues.names import SiteId
from queues.receive.parked import forget_parked
from queues.transactions import writing
from sink.endpoints import IpcEndpoint, LocalEndpoint, TcpEndpoint, parse_endpoint
from sink.port import Sink
from sink.remote import NEGOTIATION_TIMEOUT, RemoteSink

log = logger("lrq.source")


class Source:
    """Everything that reads this site's log and sends it, from `start` to `stop`."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        topology: Topology,
        lease: Lease,
        *,
        clock: Clock,
        on_lost: Callable[[OwnershipLostError], None],
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._topology = topology
        self._lease = lease
        self._on_lost = on_lost
        self._limits = Limits(settings.tick_rows, settings.tick_bytes)
        self.log = open_log(engine, self._limits)
        self.feed = LiveFeed(settings.feed_bytes, settings.flow_control, clock)
        self.sequencer = Sequencer(
            engine, self.log, self.feed, lease,
            bell=Bell(require(engine).branch), clock=clock, idle_seconds=settings.idle_poll_seconds,
            interval_seconds=settings.tick_interval_seconds, on_lost=on_lost,
        )  # fmt: skip
        self.supervisor = Supervisor(
            engine, topology, self._surroundings(clock), clients=settings.client_names,
            look_seconds=settings.snapshot_poll_seconds, clock=clock,
        )  # fmt: skip
        self._jobs = Jobs()
        #: What periodic work failed at last, by its name; empty while all is well.
        self.troubles: dict[str, str] = {}

    def start(self) -> None:
        """Begin."""
        self.sequencer.start()
        self.supervisor.start()
        self._jobs.add_periodic("trim", self._settings.trim_seconds, self.trim, self._failed)
        self._jobs.start()

    def stop(self, lost: str | None = None) -> None:
        """End everything and wait for it; *lost* says why, when the site is another server's now."""
        self.feed.close()
        self._jobs.stop()
        self.supervisor.stop(lost)
        self.sequencer.stop()

    def trim(self) -> None:
        """Rotate the log's segments, empty those that may go, and remove what snapshots left behind."""
        settings = self._settings
        self.log.rotate(self._lease, settings.segment_bytes, settings.segment_seconds)
        trimmed = self.log.trim(self._lease, Retention(settings.retention_seconds, settings.retention_bytes))
        for owed in trimmed.laggards:
            log.warning("entries were trimmed that a site had not acknowledged", **owed._asdict())
        while True:
            with writing(self._engine) as connection:
                if not snapshots.collect_garbage(connection):
                    break
        with writing(self._engine) as connection:
            forget_parked(connection, now_us() - int(settings.parked_retention_seconds * 1_000_000))
        self.troubles.pop("trim", None)

    def _fenced(self, reason: str) -> None:
        """Own the site again under a higher number, if it is ours: it was restored to a time of lower ones."""
        if leases.leap(self._engine, self._lease):
            log.warning("a sink knows later owners of this site than its database", reason=reason)
        self._on_lost(OwnershipLostError(self._lease.name, self._lease.generation, self._lease.generation * 2))

    def _failed(self, name: str, error: Exception) -> None:
        log.warning("periodic work failed", job=name, reason=str(error))
        self.troubles[name] = str(error)

    def _surroundings(self, clock: Clock) -> Surroundings:
        settings = self._settings
        limits = SessionLimits(
            window_frames=settings.window_frames,
            window_bytes=settings.window_bytes,
            batch_bytes=settings.max_batch_bytes,
            heartbeat_seconds=settings.heartbeat_seconds,
            stall_seconds=settings.stall_seconds,
            slow_retry_seconds=settings.slow_retry_seconds,
            backoff=Backoff(settings.retry_first_seconds, settings.retry_cap_seconds),
            initial_sync=settings.initial_sync,
        )
        return Surroundings(
            engine=self._engine,
            site=settings.site,
            lease=self._lease,
            clock=clock,
            limits=limits,
            connect=self._connect,
            on_fenced=self._fenced,
            outgoing=lambda owed: Outgoing(
                owed, self.log, self.feed, self._limits, part_bytes=settings.max_batch_bytes
            ),
            paths=self._paths,
        )

    def _paths(self, outgoing: Outgoing) -> Paths:
        return Paths(
            outgoing=outgoing,
            snapshot_frames=lambda snapshot, after_row: transfer.frames(
                self._engine, snapshot, after_row, chunk_bytes=self._settings.max_batch_bytes
            ),
            newest=lambda: self.feed.newest,
        )

    def _connect(self, site: SiteId) -> Sink:
        # Of several servers of the site only its owner takes anything, and nobody here knows which that is.
        endpoint = parse_endpoint(chosen(split_endpoints(self._topology.endpoint(site))))
        return find(endpoint.site) if isinstance(endpoint, LocalEndpoint) else self._dial(endpoint)

    def _dial(self, endpoint: TcpEndpoint | IpcEndpoint) -> Sink:
        timeout = min(NEGOTIATION_TIMEOUT, self._settings.stall_seconds)
        return RemoteSink(endpoint, credentials=self._settings.credentials, negotiation_timeout=timeout)
