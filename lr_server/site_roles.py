"""The roles of one server among the servers of its site: leader of ranges of sessions, and perhaps the sequencer.

Both roles share one `Source`. The source exists as long as the server has one of them.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

from discovery.membership import Membership
from discovery.ownership import Ownership, OwnershipState
from discovery.processes import owner_name
from discovery.server_status import SERVER_LEASE
from discovery.topology import Topology
from lr_server.connections import ServerEngines
from lr_server.ingest.ingest import Ingest
from lr_server.present_trouble import PresentTrouble
from lr_server.session.traffic import Traffic
from lr_server.settings import Settings
from lr_server.source.log_access import ORDINARY, LogAccess
from lr_server.source.source import Source
from queues.clock import Clock, poll
from queues.database.leases import Lease
from queues.errors import OwnershipLostError, StoreUnavailableError, ThreadEndedError
from queues.leadership import NO_TOPOLOGY, ServersView, TopologyFacts
from queues.logs import logger
from queues.send_log.port import TickRows
from queues.send_log.wakeup import wake_other_process, wake_server
from queues.words import in_words
from sink.attachment.attachments import Attachments

log = logger("lrq.server")


class SiteRoles:
    """Take part in the work of a site, from `start` to `stop`.

    `name` is the name of the server. `source` is None while the server has no role. `traffic` counts for all sessions
    that the server has led.
    """

    def __init__(
        self,
        engines: ServerEngines,
        settings: Settings,
        topology: Topology,
        *,
        clock: Clock,
        endpoints: Callable[[], Sequence[str]],
        facts: Callable[[], TopologyFacts] = lambda: NO_TOPOLOGY,
        sink_trouble: Callable[[], str] = str,
        ingest: Ingest | None = None,
        access: LogAccess = ORDINARY,
        traffic: Traffic | None = None,
        attachments: Attachments | None = None,
    ) -> None:
        """Announce the *endpoints* of the server and the *facts* about its topology to the other servers.

        The status of the site shows *sink_trouble*: see `discovery.server_status.SiteServer`. The sequencer stores for
        *ingest*. Sessions read the log by *access*, count their *traffic*, and
        reach attached sites through *attachments*.
        """
        self._engine = engines.work
        self._settings = settings
        self._topology = topology
        self._clock = clock
        self._ingest = ingest
        self.name = owner_name()
        self.source: Source | None = None
        self.traffic = traffic or Traffic()
        self._attachments = attachments or Attachments()
        self._access = access
        self._guard = threading.RLock()
        self._held: Mapping[int, Lease] = {}
        self._is_stopping = False
        self._is_sequencer = False
        self._stood_down = ""
        self._others: tuple[ServersView | None, tuple[str, ...]] = (None, ())
        self._lease_trouble = PresentTrouble(
            log, "the lease of the sequencer cannot be stored", "the lease of the sequencer is stored again"
        )
        self.ownership = Ownership(
            engines.control, SERVER_LEASE, owner=self.name,
            on_acquired=self._sequence, on_lost=self._end_sequencing, ttl=settings.lease_seconds, clock=clock,
            on_failed=self._note_lease, on_recovered=self._lease_trouble.end,
        )  # fmt: skip
        self.membership = Membership(
            engines.control, self.name, ranges=settings.ranges, ttl=settings.lease_seconds, clock=clock,
            endpoints=endpoints, topology=facts, sink_trouble=sink_trouble,
            on_change=self._lead, on_ended=self.give_up,
        )  # fmt: skip

    def start(self) -> None:
        """Begin to take part; return when the server has looked for its roles, at most `lease_seconds` later.

        Raises `ConfigurationError` if other servers of the site use another number of ranges, and
        `StoreUnavailableError`.
        """
        # A sequencer without a row among the servers would look like an older version, which works alone.
        self.membership.start()
        self.ownership.start()
        poll(self._has_looked, bool, timeout=self._settings.lease_seconds, pause=0.02, clock=self._clock)

    def stop(self) -> None:
        """End all work, and leave it to the other servers at once. May be called twice."""
        self._is_stopping = True
        self.ownership.stop()
        self.membership.stop()
        with self._guard:
            self._discard(None)

    @property
    def is_sequencer(self) -> bool:
        """Whether the server takes the ticks of the site."""
        return self._is_sequencer

    @property
    def ranges(self) -> int:
        """The number of ranges that the server leads."""
        return len(self._held)

    def other_endpoints(self) -> Sequence[str]:
        """Return the endpoints of the other living servers, as of the last look."""
        view = self.membership.view
        living = () if view is None else view.living.values()
        return [endpoint for row in living if row.server != self.name for endpoint in row.endpoints]

    @property
    def reason(self) -> str:
        """Why the server has its roles, or has none, in one sentence."""
        view = self.membership.view
        role = self.ownership.reason
        if self.ownership.state is OwnershipState.STANDING_BY and view is not None and view.sequencer is not None:
            role = f"server: {view.sequencer.owner} takes the ticks as generation {view.sequencer.generation}"
        return f"{self._stood_down or role}; {self.membership.reason}"

    @property
    def trouble(self) -> str:
        """Why the server takes no part in the work, or cannot renew its lease; empty while all is well."""
        return self.membership.trouble or self._lease_trouble.reason

    def _has_looked(self) -> bool:
        is_settled = self._is_sequencer or self.ownership.state is OwnershipState.STANDING_BY
        return is_settled and self.membership.view is not None

    def topology_changed(self) -> None:
        """Tell the other servers the new version of the peers soon."""
        self.membership.wake()

    # --- called by the threads of both leases -----------------------------------------------------------------

    def _lead(self, held: Mapping[int, Lease]) -> None:
        with self._guard:
            if held and not self._held:
                self._stood_down = ""
            self._held = dict(held)
            if held and self.source is None and not self._is_stopping:
                self.source = self._following()
            if self.source is not None:
                self.source.lead(held)
            if not held and not self._is_sequencer:
                self._discard(None)

    def _sequence(self, lease: Lease) -> None:
        with self._guard:
            self._stood_down = ""
            source = self.source or self._new_source()
            try:
                source.sequence(lease)
                if self.source is None:
                    source.start()
            except BaseException:
                if self.source is None:
                    source.stop()
                raise
            self.source = source
            if self._ingest is not None:
                self._ingest.lead(source.look, self.give_up)
            self._is_sequencer = True
        # The branch may be new.
        self.membership.wake()
        log.info("sequencer of the site", site=self._settings.site_id, generation=lease.generation)

    def _note_lease(self, error: Exception) -> None:
        # A database that is away meets all work, which reports that.
        if not isinstance(error, StoreUnavailableError):
            self._lease_trouble.note(error)

    def _end_sequencing(self, error: Exception | None) -> None:
        if self._ingest is not None:
            self._ingest.follow()
        with self._guard:
            self._is_sequencer = False
            if error is not None:
                self._stood_down = in_words(error)
                log.warning("standing down", site=self._settings.site_id, reason=self._stood_down)
            if self.source is None:
                return
            if not self._held:
                self._discard(self._stood_down or None)
            elif self._is_stopping:
                self.source.rest()
            else:
                self.source.follow()

    def _discard(self, lost: str | None) -> None:
        source, self.source = self.source, None
        if source is not None:
            source.stop(lost)

    def _following(self) -> Source:
        source = self._new_source()
        try:
            source.follow()
            source.start()
        except BaseException:
            # Otherwise the threads that have begun would stay, and each later try would add its own.
            source.stop()
            raise
        return source

    def _new_source(self) -> Source:
        return Source(
            self._engine,
            self._settings,
            self._topology,
            server=self.name,
            clock=self._clock,
            on_tick=self._ticked,
            on_begin=self._sequencer_begins,
            on_lost=self.ownership.give_up,
            on_lost_range=self._look_again,
            on_ended=self.give_up,
            attachments=self._attachments,
            traffic=self.traffic,
            access=self._access,
        )

    def _look_again(self, _error: OwnershipLostError) -> None:
        self.membership.wake()

    def give_up(self, error: ThreadEndedError) -> None:
        """Leave all work to other servers for a time, because a thread has ended by *error*."""
        # Which part of the work still goes on is unknown, so all of it moves to the other servers.
        self.ownership.give_up(error)
        self.membership.give_up(error)

    def _ticked(self, group: TickRows) -> None:
        if self._ingest is not None:
            self._ingest.ticked(group)
        self._wake_others()

    def _sequencer_begins(self) -> None:
        if self._ingest is not None:
            self._ingest.interrupted()

    def _wake_others(self) -> None:
        view = self.membership.view
        if view is not self._others[0]:
            living = () if view is None else tuple(name for name in view.living if name != self.name)
            self._others = view, living
        for name in self._others[1]:
            wake_server(name)
            wake_other_process(name)
