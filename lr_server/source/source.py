"""The source role of a server that owns its site: log, feed, sequencer, sessions, periodic work."""

from collections.abc import Callable, Mapping
from typing import Final

from sqlalchemy import Engine

from discovery.scheduler import Jobs
from discovery.threads import OnEnded
from discovery.topology import Topology, split_endpoints
from lr_server.feed.feed import LiveFeed
from lr_server.session import snapshot_frames
from lr_server.session.outages import Outages
from lr_server.session.outgoing import Outgoing
from lr_server.session.runner import SessionContext, SessionLimits
from lr_server.session.stream import FrameSources
from lr_server.settings import Settings
from lr_server.source.provider_watch import ProviderWatch
from lr_server.source.reminders import Reminders
from lr_server.source.sequencer import Sequencer
from lr_server.source.supervisor import Supervisor
from queues import send_snapshot
from queues.backoff import Backoff
from queues.browse.unknown import unknown_destinations
from queues.clock import Clock, chosen, iso, now_us
from queues.database.leases import Lease
from queues.database.migrations import require
from queues.database.transactions import reading, writing
from queues.errors import LrqError, OwnershipLostError
from queues.logs import logger
from queues.names import SiteId
from queues.receive.parked import forget_parked
from queues.send_log.opening import open_log
from queues.send_log.port import SessionKey, TickLimits, TickRows
from queues.send_log.rotation import trim_pause
from queues.send_log.wakeup import Wakeup
from queues.words import in_words
from sink.local import find
from sink.port import Sink
from sink.transport.endpoints import IpcEndpoint, LocalEndpoint, TcpEndpoint, parse_endpoint
from sink.transport.remote import NEGOTIATION_TIMEOUT, RemoteSink

log = logger("lrq.source")

#: A look at the providers comes after so many looks at the requests for snapshots.
_PROVIDER_LOOKS: Final = 10


class Source:
    """All threads that read this site's log and send it, from `start` to `stop`."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        topology: Topology,
        lease: Lease,
        *,
        clock: Clock,
        on_lost: Callable[[OwnershipLostError], None],
        on_ended: OnEnded,
        on_tick: Callable[[TickRows], None] | None = None,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._topology = topology
        self._lease = lease
        self._on_lost = on_lost
        self._clock = clock
        self._on_ended = on_ended
        self._limits = TickLimits(settings.tick_rows, settings.tick_bytes)
        self._branch = require(engine).branch
        self.log = open_log(engine, self._limits)
        self.feed = LiveFeed(settings.feed_bytes, settings.flow_control, clock)
        self.sequencer = Sequencer(
            engine, self.log, self.feed, lease,
            wakeup=Wakeup(self._branch), clock=clock, idle_seconds=settings.idle_poll_seconds,
            interval_seconds=settings.tick_interval_seconds, on_lost=on_lost, on_ended=on_ended,
            on_tick=on_tick,
        )  # fmt: skip
        self.supervisor = Supervisor(
            engine, topology, self._session_context(clock), clients=settings.client_names,
            look_seconds=settings.snapshot_poll_seconds, clock=clock, told=settings.look_alikes,
            known_only=settings.known_destinations_only,
        )  # fmt: skip
        self._unknown = Reminders()
        self._providers = ProviderWatch(engine, lease, settings.initial_sync, clock)
        self._jobs = Jobs(on_ended=on_ended)
        #: The last error of each failing periodic job, by the job's name; empty while all is well.
        self.troubles: dict[str, str] = {}

    def start(self) -> None:
        """Start the sequencer, the sessions and the periodic trim."""
        self.sequencer.start()
        self.supervisor.start()
        pause = trim_pause(self._settings.trim_seconds, self._settings.retention(None))
        self._jobs.add_periodic("trim", pause, self.trim, self._failed)
        look = _PROVIDER_LOOKS * self._settings.snapshot_poll_seconds
        self._jobs.add_periodic("providers", look, self._watch_providers, self._failed)
        self._jobs.start()

    def stop(self, lost: str | None = None) -> None:
        """End all threads and wait for them; *lost* is the reason if another server owns the site now."""
        self.feed.close()
        self._jobs.stop()
        self.supervisor.stop(lost)
        self.sequencer.stop()

    def trim(self) -> None:
        """Rotate and empty the log's segments; remove the rows of ended snapshots and old parked entries."""
        settings = self._settings
        retention = settings.retention(self._topology.peers())
        self.log.rotate(self._lease, settings.segment_bytes, settings.segment_seconds, retention)
        trimmed = self.log.trim(self._lease, retention)
        for owed in trimmed.laggards:
            log.warning("entries were trimmed that a site had not acknowledged", **owed._asdict())
        if trimmed.found_unordered:
            log.warning(
                "entries have no place in the order of commits: no site gets them", count=trimmed.found_unordered
            )
        if trimmed.dropped_unordered:
            log.warning("entries were trimmed that no site ever got", count=trimmed.dropped_unordered)
        self._tell_unknown(trimmed.dropped_unknown)
        while True:
            with writing(self._engine) as connection:
                if not send_snapshot.collect_garbage(connection):
                    break
        with writing(self._engine) as connection:
            forget_parked(connection, now_us() - int(settings.parked_retention_seconds * 1_000_000))
        self.troubles.pop("trim", None)

    def _watch_providers(self) -> None:
        self._providers.look(session.owed for session in self.supervisor.sessions() if session.awaits_snapshot)
        self.troubles.pop("providers", None)

    def _tell_unknown(self, dropped: Mapping[SessionKey, int]) -> None:
        for owed, entries in dropped.items():
            log.warning("entries were dropped: their destination is no peer", **owed._asdict(), count=entries)
        with reading(self._engine) as connection:
            found = {each.owed: each for each in unknown_destinations(connection) if each.waiting.entries}
        for owed in self._unknown.due(found, self._clock.monotonic()):
            log.warning(
                "entries wait for a destination that is no peer: add the site to `peers`, or correct the name",
                **owed._asdict(), count=found[owed].waiting.entries, oldest=iso(found[owed].oldest_us),
            )  # fmt: skip

    def _failed(self, name: str, error: Exception) -> None:
        reason = in_words(error)
        is_bug = not isinstance(error, LrqError) and self.troubles.get(name) != reason
        log.warning("periodic work failed", job=name, reason=reason, exc_info=is_bug and error)
        self.troubles[name] = reason

    def _session_context(self, clock: Clock) -> SessionContext:
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
        return SessionContext(
            engine=self._engine,
            site=settings.site,
            lease=self._lease,
            clock=clock,
            limits=limits,
            connect=self._connect,
            installation=self._branch,
            on_lost=self._on_lost,
            on_ended=self._on_ended,
            outgoing=lambda owed: Outgoing(
                owed, self.log, self.feed, self._limits, part_bytes=settings.max_batch_bytes
            ),
            paths=self._paths,
            outages=Outages(clock),
        )

    def _paths(self, outgoing: Outgoing) -> FrameSources:
        return FrameSources(
            outgoing=outgoing,
            snapshot_frames=lambda snapshot, after_row: snapshot_frames.frames(
                self._engine, snapshot, after_row, chunk_bytes=self._settings.max_batch_bytes
            ),
            newest=lambda: self.feed.newest,
        )

    def _connect(self, site: SiteId) -> Sink:
        # The owner among several servers of a site is unknown here: a standby refuses, and the session tries again.
        endpoint = parse_endpoint(chosen(split_endpoints(self._topology.endpoint(site))))
        return find(endpoint.site) if isinstance(endpoint, LocalEndpoint) else self._dial(endpoint)

    def _dial(self, endpoint: TcpEndpoint | IpcEndpoint) -> Sink:
        timeout = min(NEGOTIATION_TIMEOUT, self._settings.stall_seconds)
        return RemoteSink(endpoint, credentials=self._settings.credentials, negotiation_timeout=timeout)
