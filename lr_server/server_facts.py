"""The facts of one server, which its status, its health and its metrics show."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from sqlalchemy import Engine

from discovery.server_status import IngestStatus, ServerStatus
from discovery.site_status import SiteStatus
from discovery.status import read_status
from lr_server.ingest.ingest import Ingest
from lr_server.lasting_trouble import LastingTrouble
from lr_server.metrics.traffic import ServerTraffic
from lr_server.ring.seat import RingSeat
from lr_server.ring_roles import RingRoles
from lr_server.server_endpoints import ServerEndpoints
from lr_server.site_roles import SiteRoles
from queues import descriptors
from queues.clock import Clock
from queues.database.followers import standby_facts
from queues.database.transactions import reading
from queues.errors import OwnershipLostError
from queues.leadership import TopologyFacts
from queues.thread_lack import LACKS_THREADS
from sink.writer import SinkWriter


class ServerFacts:
    """Asks the parts of a server for their facts; only `site_status` waits for the database."""

    def __init__(
        self,
        engine: Engine,
        roles: SiteRoles | RingRoles,
        endpoints: ServerEndpoints,
        *,
        writer: SinkWriter,
        ingest: Ingest | None,
        ring: RingSeat | None,
        topology: Callable[[], TopologyFacts],
        clock: Clock,
    ) -> None:
        """Read the status of the site through *engine*."""
        self._engine = engine
        self._roles = roles
        self._endpoints = endpoints
        self._writer = writer
        self._ingest = ingest
        self._ring = ring
        self._topology = topology
        self._clock = clock
        self._without_ticks = LastingTrouble()
        self._without_checks = LastingTrouble()
        self._not_attached = LastingTrouble()

    def site_status(self) -> SiteStatus:
        """Return the status of the site, with the part of this server."""
        source = self._roles.source
        if source is not None and not self._commits_wait():
            with suppress(OwnershipLostError):
                source.supervisor.save()
        return replace(read_status(self._engine), server=self.server_status())

    def _commits_wait(self) -> bool:
        with reading(self._engine) as connection:
            facts = standby_facts(connection)
        return facts is not None and bool(facts.why_commits_wait)

    def server_status(self) -> ServerStatus:
        """Return the part of this server."""
        return ServerStatus(
            name=self._roles.name,
            owner=self._roles.is_sequencer,
            ranges=self._roles.ranges,
            reason=self._roles.reason,
            endpoints=self._endpoints.listening,
            metrics=self._endpoints.metrics,
            ingest=None if self._ingest is None else IngestStatus(**self._ingest.facts._asdict()),
            troubles=self.troubles(),
            topology=self._topology(),
            ring=None if self._ring is None else self._ring.status,
        )

    def troubles(self) -> dict[str, str]:
        """Return one sentence for each part that cannot do its work now, by the name of the part."""
        source = self._roles.source
        ingest = self._ingest.trouble if self._ingest is not None else ""
        room = descriptors.NO_DESCRIPTOR if descriptors.lack() else ""
        own = {
            "ingest": ingest, "topology": self._topology().trouble, "sink": self._writer.trouble, "descriptors": room,
            "threads": self._endpoints.trouble, "sockets": self._endpoints.socket_trouble,
            "attachment": self._endpoints.attachment_trouble,
        }  # fmt: skip
        found = {part: trouble for part, trouble in own.items() if trouble}
        return found if source is None else {**found, **source.troubles}

    def lasting_trouble(self) -> str:
        """Return why entries or calls wait at this server, for the status of the site; empty if none do."""
        source = self._roles.source
        parts, now = {} if source is None else source.troubles, self._clock.monotonic()
        if reason := self._without_ticks.look(parts.get("sequencer", ""), now):
            return f"no entry leaves this site, because no tick can be taken: {reason}"
        if reason := self._without_checks.look(parts.get("sessions", ""), now):
            return f"no session begins, because the sessions cannot be checked: {reason}"
        if refusal := self._writer.lasting_refusal:
            return refusal
        if lost := self._endpoints.socket_trouble:
            return lost
        if away := self._not_attached.look(self._endpoints.attachment_trouble, now):
            return away
        return f"calls wait at a server of this site, because its process {LACKS_THREADS}" * bool(
            self._endpoints.trouble
        )

    def turns(self) -> Mapping[str, float]:
        """Return the time of the last turn of each loop; see `Source.turns`."""
        source = self._roles.source
        return {} if source is None else source.turns

    def traffic(self) -> ServerTraffic:
        """Return the bytes and entries that this server has sent and received."""
        return ServerTraffic(self._roles.traffic.facts, self._endpoints.received)
