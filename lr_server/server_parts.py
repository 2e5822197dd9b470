"""The parts of a server beside its roles: attached servers, a member of a ring, and the ingest."""

from collections.abc import Callable

from discovery.topology import Topology
from lr_server.connections import ServerEngines
from lr_server.ingest.ingest import Ingest
from lr_server.ingest.intake import Leader
from lr_server.ingest.leader_watch import LeaderWatch
from lr_server.ring.request_store import RingStore
from lr_server.ring.seat import RingSeat, SeatPlace
from lr_server.settings import Settings
from lr_server.topology.rules import is_attached
from queues.clock import Clock
from queues.database.followers import followers
from queues.database.leading_server import leading_endpoints
from queues.names import SiteId
from sink.attachment.attachments import Attachments
from sink.attachment.servicer import AttachmentServicer


def open_attachment(settings: Settings, topology: Topology, clock: Clock) -> tuple[Attachments, AttachmentServicer]:
    """Return the attached servers of other sites, and the service for the sites that *topology* has as attached."""

    def doubt_of(site: SiteId) -> str:
        if not topology.version:
            return f"{settings.site} has not read its peers yet: look at its log if that lasts"
        peer = topology.peers().get(site)
        if peer is not None and is_attached(site, peer):
            return ""
        return f'{settings.site} has no peer {site} with the endpoint "attached:{site}": write that into its peers'

    attachments = Attachments()
    return attachments, AttachmentServicer(
        settings.site,
        attachments,
        doubt_of,
        clock,
        most=settings.max_streams,
        most_per_caller=settings.max_streams_per_caller,
    )


def open_ring(
    engines: ServerEngines, settings: Settings, on_release: Callable[[], None], clock: Clock
) -> RingSeat | None:
    """Return the member of the table `[ring]`; None without that table.

    *on_release* is called soon after each newly released tick.
    """
    if settings.ring is None:
        return None
    place = SeatPlace(settings.site_id, settings.ring, settings.credentials)
    return RingSeat(engines.work, place, on_change=on_release, clock=clock)


def open_ingest(
    engines: ServerEngines, settings: Settings, ring: RingSeat | None, is_leader: Callable[[], bool], clock: Clock
) -> Ingest | None:
    """Return the service for the requests of producers; None if the settings want none.

    On a ring, the member of *ring* stores the requests while it leads. Otherwise the sequencer stores them in the
    site's database. *is_leader* tells whether this server is the one that stores them.
    """
    if not settings.ingest:
        return None
    if ring is None:
        return _site_ingest(engines, settings, is_leader, clock)
    return _ring_ingest(engines, settings, ring, is_leader, clock)


def _site_ingest(engines: ServerEngines, settings: Settings, is_leader: Callable[[], bool], clock: Clock) -> Ingest:
    return Ingest(
        engines.work,
        settings,
        leader=LeaderWatch(is_leader, lambda: leading_endpoints(engines.control), clock),
        followers=lambda: followers(engines.control),
        clock=clock,
    )


def _ring_ingest(
    engines: ServerEngines, settings: Settings, seat: RingSeat, is_leader: Callable[[], bool], clock: Clock
) -> Ingest:
    def leader() -> Leader:
        if is_leader():
            return Leader(is_me=True, lack=seat.lack)
        return Leader(is_me=False, endpoint=seat.leader_endpoint, lack=seat.lack)

    return Ingest(
        engines.work,
        settings,
        leader=leader,
        followers=lambda: None,
        clock=clock,
        new_store=lambda engine, limits: RingStore(engine, seat.runner, limits),
    )
