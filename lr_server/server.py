"""A server of a site: sink and source in one process, alone or beside other servers of the site."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from discovery.server_status import ServerStatus
from discovery.site_status import SiteStatus
from discovery.topology import Topology
from lr_server.connections import open_engines
from lr_server.drain import drain
from lr_server.health import Health
from lr_server.ingest.servicer import INGEST
from lr_server.replay_watch import ReplayWatch
from lr_server.ring_roles import RingRoles
from lr_server.server_endpoints import ServerEndpoints
from lr_server.server_facts import ServerFacts
from lr_server.server_parts import open_attachment, open_ingest, open_ring
from lr_server.session.traffic import Traffic
from lr_server.settings import Settings
from lr_server.site_roles import SiteRoles
from lr_server.site_topology import followed_topology
from lr_server.source.log_access import ORDINARY, LogAccess
from lr_server.source.source import Source
from lr_server.stop_watch import StopWatch
from lr_server.topology.followed import FollowedTopology
from queues.clock import SYSTEM_CLOCK, Clock
from queues.database.migrations import require
from queues.errors import UsageError
from queues.leadership import TopologyFacts
from queues.names import ClientName, SiteId
from queues.positions import Position, PositionToken, parse_position
from sink import local
from sink.transport.health import HealthService
from sink.transport.servicer import REPLICATION
from sink.writer import SinkWriter


class LogReplicationServer:
    """Sends a site's log to its peers and receives their logs; several servers of a site share the sessions.

    Example:
        >>> with LogReplicationServer(settings) as server:
        ...     server.drain(timeout=30)
    """

    def __init__(
        self,
        settings: Settings,
        *,
        topology: Topology | None = None,
        reread: Callable[[], Settings] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Prepare the server without a connection; *topology* replaces the setting `topology`.

        `reload_peers` calls *reread* for the settings as their file has them then. Raises `UsageError` unless
        *settings* are `Settings`, `MissingDependencyError` without the database's driver, and `ConfigurationError` if
        there is no such topology.
        """
        if not isinstance(settings, Settings):
            raise UsageError(
                f"LogReplicationServer needs Settings, not {type(settings).__name__}: "
                "Settings(site_id=..., database_url=...) opens the database itself"
            )
        self._settings = settings
        self._clock = clock
        self._engines = open_engines(
            settings.database_url, settings.site_id, settings.max_connections, settings.lease_seconds
        )
        self._engine = self._engines.work
        self._followed: FollowedTopology | None = None
        if topology is None:
            topology = self._followed = followed_topology(
                settings, self._engine, reread, self._all_endpoints, clock, self._peers_changed
            )
        self._topology = topology
        self._replays = ReplayWatch(
            self._engines.control, self._end_streams, lambda error: self._roles.give_up(error), clock
        )
        self._ring = open_ring(self._engines, settings, self._released, clock)
        self._ingest = open_ingest(self._engines, settings, self._ring, lambda: self.is_owner, clock)
        self._attachments, attachment = open_attachment(settings, topology, clock)
        beside = (attachment, self._ingest, None if self._ring is None else self._ring.servicer)
        self._endpoints = ServerEndpoints(settings, [each for each in beside if each is not None], clock)
        self._roles = (
            self._new_roles()
            if self._ring is None
            else RingRoles(self._engine, self._ring, self._new_roles, clock=clock)
        )
        self._writer = SinkWriter(
            self._engine, settings.site,
            others=self._roles.other_endpoints, stopped_seconds=settings.lease_seconds / 2,
            max_frame_bytes=settings.max_message_bytes, receive_bytes=settings.receive_bytes, clock=clock,
        )  # fmt: skip
        self._facts = ServerFacts(
            self._engines.control, self._roles, self._endpoints,
            writer=self._writer, ingest=self._ingest, ring=self._ring, topology=self._topology_facts,
            clock=clock,
        )  # fmt: skip
        services = {REPLICATION, INGEST} if settings.ingest else {REPLICATION}
        self._checks = HealthService(frozenset(services), is_ready=lambda: not self._health.troubles(), clock=clock)
        self._health = Health(
            self._engines.control, settings.site,
            role=lambda: self._roles.trouble, parts=self._facts.troubles, turns=self._facts.turns,
            on_ready=lambda ready: self._checks.set(serving=ready), on_ended=self._roles.give_up, clock=clock,
        )  # fmt: skip

    def _new_roles(self, access: LogAccess = ORDINARY, traffic: Traffic | None = None) -> SiteRoles:
        return SiteRoles(
            self._engines, self._settings, self._topology,
            clock=self._clock, endpoints=lambda: self._endpoints.advertised, facts=self._topology_facts,
            sink_trouble=lambda: self._facts.lasting_trouble(), ingest=self._ingest, access=access, traffic=traffic,
            attachments=self._attachments,
        )  # fmt: skip

    def start(self) -> None:
        """Listen, and begin to work; return when the server has looked for its share of the work.

        If that takes longer than `lease_seconds`, return anyway and keep trying; `status` gives the reason.

        Raises:
            SetupError: The database belongs to another site or is not migrated.
            ConfigurationError: The server cannot listen at an endpoint.
            StoreUnavailableError: The database cannot be used.
        """
        try:
            require(self._engines.control, site_id=self._settings.site)
            self._endpoints.listen(self._writer, self._checks)
            self._endpoints.listen_for_metrics(self._facts.site_status, self._facts.traffic, self._health)
            self._endpoints.advertise()
            if self._followed is not None:
                self._followed.start(self._settings.lease_seconds)
        except BaseException:
            self._close()
            self._endpoints.close_metrics()
            self._engines.dispose()
            raise
        local.offer(self._settings.site, self._writer)
        try:
            self._roles.start()
            self._health.start()
            self._replays.start()
        except BaseException:
            # Otherwise a server without a part in the work would go on listening.
            self.stop()
            raise

    def stop(self) -> None:
        """Finish the current work, leave it to other servers, and stop listening. May be called twice.

        A stop that waits for locks of others tells them in the log, and ends its own waiting statements soon.
        """
        with StopWatch(self._engines, self._clock):
            self._stop()

    def _stop(self) -> None:
        self._health.begin_stop()
        local.withdraw(self._settings.site, self._writer)
        self._replays.stop()
        if self._ingest is not None:
            self._ingest.stop()
        self._close()
        self._writer.stop()
        self._roles.stop()
        self._health.stop()
        # The pages of the health tell until the end that the server stops.
        self._endpoints.close_metrics()
        self._engines.dispose()

    def _close(self) -> None:
        if self._followed is not None:
            self._followed.stop()
        self._endpoints.close()

    def __enter__(self) -> Self:
        """Start the server."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server."""
        self.stop()

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The endpoints where this server listens, with port 0 replaced by the real port."""
        return self._endpoints.listening

    @property
    def is_owner(self) -> bool:
        """Whether this server takes the ticks of its site; with several servers, exactly one does."""
        return self._roles.is_sequencer

    def reload_peers(self) -> None:
        """Read the peers again now: from the file, the table, or the provider of the setting `topology`.

        Wrong or unreachable peers change nothing, and the log and the status tell the reason. Sessions with removed
        sites end, those with moved sites connect again, and sessions with new sites begin. For any thread. For a table
        or a provider the wait ends after 5 s, and the reading goes on.
        """
        if self._followed is not None:
            self._followed.refresh()

    def drain(self, timeout: float, *, until: PositionToken | Position | str | None = None) -> None:
        """Wait until every session has acknowledged all entries committed now, at most *timeout* seconds.

        With *until*, the token of a transaction or a position, wait only for entries up to there. Both may be texts;
        that of a position is `<branch>@<number>`. Links that an operator has ended count once they are finished. The
        sessions of all servers of the site count. Raises `WaitTimeoutError`, which names the unfinished sessions.
        Raises `PeerUnreachableError` at once if a session tries no more (`retry_forever`). Raises
        `StoreUnavailableError` once the database has been away for a minute. Raises `VersionLostError` for a lost
        transaction or position, `InvalidPositionError` for another text, and `UsageError` for the token of another
        site.
        """
        if isinstance(until, str):
            until = parse_position(until) if "@" in until else PositionToken.parse(until)
        drain(self._engine, self._source, timeout, self._clock, until=until)

    def status(self) -> dict[str, Any]:
        """Return the status of the site as `lrq status --json` prints it, with this server's part as `server`."""
        return self.site_status().as_json()

    def site_status(self) -> SiteStatus:
        """Return the status of the site as values, with this server's part."""
        return self._facts.site_status()

    def server_status(self) -> ServerStatus:
        """Return this server's part of the status, without the database."""
        return self._facts.server_status()

    def health_troubles(self) -> Mapping[str, str]:
        """Return one sentence for each reason why the server is not ready, as `/readyz` does; empty if it is ready.

        Without the database, so the answer comes at once.
        """
        return self._health.troubles()

    def stuck_loops(self) -> Mapping[str, str]:
        """Return one sentence for each loop that does not turn any more, as `/healthz` does; empty while all turn."""
        return self._health.stuck()

    # --- for the parts of the server ---------------------------------------------------------------------------

    @property
    def _source(self) -> Source | None:
        return self._roles.source

    def _released(self) -> None:
        if isinstance(self._roles, RingRoles):
            self._roles.released()

    def _end_streams(self, client: ClientName, source: SiteId) -> None:
        local.end_streams(self._settings.site, client, source)
        self._endpoints.end_streams(client, source)

    def _all_endpoints(self) -> tuple[str, ...]:
        return (*self._endpoints.listening, *self._endpoints.advertised)

    def _peers_changed(self) -> None:
        # The row of this server tells the others its new version.
        self._roles.topology_changed()

    def _topology_facts(self) -> TopologyFacts:
        if self._followed is not None:
            return self._followed.facts
        return TopologyFacts("the program", self._topology.version)
