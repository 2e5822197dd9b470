"""The source role of a server: the sessions that it leads, the live feed, and perhaps the sequencer."""

from collections.abc import Callable, Mapping
from typing import Final

from sqlalchemy import Engine

from discovery.scheduler import Jobs
from discovery.threads import OnEnded
from discovery.topology import Topology
from lr_server.feed.feed import LiveFeed
from lr_server.session import snapshot_frames
from lr_server.session.context import SessionContext
from lr_server.session.frame_sources import FrameSources
from lr_server.session.outages import Outages
from lr_server.session.outgoing import Outgoing
from lr_server.session.snapshot_lane import SnapshotLane
from lr_server.session.traffic import Traffic
from lr_server.settings import Settings
from lr_server.source.job_troubles import JobTroubles
from lr_server.source.log_access import ORDINARY, LogAccess
from lr_server.source.provider_watch import ProviderWatch
from lr_server.source.replica_work import ReplicaWork
from lr_server.source.session_limits import session_limits
from lr_server.source.sink_connector import SinkConnector
from lr_server.source.supervisor import Supervisor
from lr_server.source.tick_role import TickRole
from queues.clock import Clock
from queues.database.leases import Lease
from queues.errors import OwnershipLostError
from queues.names import ClientName, SiteId
from queues.send_log.port import Log, SessionKey, TickLimits, TickRows
from sink import local
from sink.attachment.attachments import Attachments

#: A look at the providers comes after so many looks at the requests for snapshots.
_PROVIDER_LOOKS: Final = 10


class Source:
    """All threads that read this site's log and send it, from `start` to `stop`.

    A source leads the sessions of some ranges (`lead`). The feed follows the ticks of another server, until `sequence`
    makes the source the sequencer of the site. `start`, `stop`, `sequence` and `follow` are for one thread at a time.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        topology: Topology,
        *,
        server: str,
        clock: Clock,
        on_tick: Callable[[TickRows], None],
        on_begin: Callable[[], None],
        on_lost: Callable[[OwnershipLostError], None],
        on_lost_range: Callable[[OwnershipLostError], None],
        on_ended: OnEnded,
        attachments: Attachments,
        traffic: Traffic,
        access: LogAccess = ORDINARY,
    ) -> None:
        """Prepare the threads of *server*, whose sessions count their *traffic*, with *access* to the log.

        *attachments* are the attached servers of other sites. As the sequencer, call *on_begin* and *on_tick* as
        `Sequencer` does, and *on_lost* after the loss of the lease. After a refused transaction under the lease of a
        range, call *on_lost_range*.
        """
        self._engine = engine
        self._settings = settings
        self._on_lost_range = on_lost_range
        self._on_ended = on_ended
        self._traffic = traffic
        self._limits = TickLimits(settings.tick_rows, settings.tick_bytes)
        self._access = access
        self.feed = LiveFeed(settings.feed_bytes, settings.flow_control, clock)
        self._lane = SnapshotLane(clock, settings.snapshot_floor_bytes)
        self._sinks = SinkConnector(settings, topology, attachments, traffic, clock)
        self._ticks = TickRole(
            engine, settings, topology, self.feed, self._limits, access,
            server=server, clock=clock, on_tick=on_tick, on_begin=on_begin,
            on_branch=lambda branch: self.supervisor.end_other_branches(branch), on_lost=on_lost, on_ended=on_ended,
        )  # fmt: skip
        self._replicas = ReplicaWork(engine, topology, lambda: self.log, pause=settings.heartbeat_seconds, clock=clock)
        self.supervisor = Supervisor(
            engine, topology, self._session_context(clock), clients=settings.client_names, ranges=settings.ranges,
            look_seconds=settings.snapshot_poll_seconds, clock=clock, told=settings.look_alikes,
            known_only=settings.known_destinations_only, find_branch=self._ticks.find_branch, replicas=self._replicas,
        )  # fmt: skip
        self._providers = ProviderWatch(engine, settings.initial_sync, clock)
        self._jobs = Jobs(on_ended=on_ended)
        self._troubles = JobTroubles()

    @property
    def log(self) -> Log:
        """The log that this source reads; the sequencer takes its ticks from the same object."""
        return self._ticks.log

    def look(self) -> None:
        """Look for committed entries at once, if this source takes the ticks of the site."""
        self._ticks.look()

    @property
    def troubles(self) -> Mapping[str, str]:
        """One sentence for each part that fails now, by the part's name."""
        sessions = {"sessions": self.supervisor.trouble} if self.supervisor.trouble else {}
        return {**self._troubles.present, **self._ticks.troubles, **sessions}

    @property
    def turns(self) -> Mapping[str, float]:
        """The last turn of each loop, in monotonic seconds; infinite while a loop waits for sessions."""
        return {"sessions": self.supervisor.turned, **self._ticks.turns}

    def start(self) -> None:
        """Start the sessions; `sequence` or `follow` must come first."""
        self.supervisor.start()
        local.offer_source(self._settings.site, self)
        look = _PROVIDER_LOOKS * self._settings.snapshot_poll_seconds
        self._jobs.add_periodic("providers", look, self._watch_providers, self._troubles.note)
        self._jobs.start()

    def stop(self, lost: str | None = None) -> None:
        """End all threads and wait for them; *lost* is the reason if other servers do the work now."""
        local.withdraw_source(self._settings.site, self)
        self.feed.close()
        self._jobs.stop()
        self.supervisor.stop(lost)
        self._sinks.close()
        self._ticks.rest()

    def negotiate_again(self, client: ClientName, destination: SiteId) -> None:
        """See `sink.local.LocalSource`."""
        if self._sinks.reaches_locally(destination):
            self.supervisor.negotiate_again(SessionKey(client, destination))

    def lead(self, held: Mapping[int, Lease]) -> None:
        """Lead the sessions of the ranges *held*; on return, the sessions of all other ranges have ended."""
        self.supervisor.lead(held)

    def sequence(self, lease: Lease) -> None:
        """Take the ticks of the site under *lease*, without an end of the sessions.

        If the database was restored or promoted, a new branch begins, and the sessions begin anew. Raises the errors of
        `queues.database.transactions`, and `OwnershipLostError`.
        """
        self._ticks.sequence(lease)
        self.supervisor.sequence(lease)

    def follow(self) -> None:
        """Follow the ticks of another server, without an end of the sessions."""
        self.supervisor.sequence(None)
        self._ticks.follow()

    def rest(self) -> None:
        """Take and follow no tick any more; the sessions go on with the ticks that they find in the database."""
        self.supervisor.sequence(None)
        self._ticks.rest()

    def trim(self) -> None:
        """Trim the log at once; without effect unless this source is the sequencer, or trims the log of a ring."""
        self._ticks.trim()

    def _watch_providers(self) -> None:
        waiting = (session for session in self.supervisor.sessions() if session.awaits_snapshot)
        self._providers.look({session.owed: session.leadership.lease for session in waiting})
        self._troubles.end("providers")

    def _session_context(self, clock: Clock) -> SessionContext:
        settings = self._settings
        return SessionContext(
            engine=self._engine,
            site=settings.site,
            clock=clock,
            limits=session_limits(settings),
            connect=self._sinks.connect,
            has_snapshot_way=self._sinks.has_snapshot_way,
            routes=self._sinks.routes,
            stream_threads=self._sinks.stream_threads,
            on_lost=self._on_lost_range,
            on_ended=self._on_ended,
            outgoing=lambda owed: Outgoing(
                owed,
                self.log,
                self.feed,
                self._limits,
                part_bytes=settings.max_batch_bytes,
                regrouped=lambda: self._replicas.regrouped_seq,
            ),
            paths=self._paths,
            heard=self._replicas.heard,
            outages=Outages(clock),
            traffic=self._traffic.of,
            generation=self._access.generation,
            shown=self._access.shown,
        )

    def _paths(self, outgoing: Outgoing) -> FrameSources:
        return FrameSources(
            outgoing=outgoing,
            snapshot_frames=lambda work: snapshot_frames.frames(
                self._engine,
                work,
                chunk_bytes=lambda: self._lane.frame_bytes(self._settings.max_batch_bytes),
            ),
            newest=lambda: self.feed.newest,
            lane=self._lane,
            active=lambda: self._replicas.serving(outgoing.destination),
        )
