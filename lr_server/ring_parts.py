"""The parts of a server that are others on a ring: its member, and the store of producers' requests."""

from collections.abc import Callable

from sqlalchemy import Engine

from lr_server.ingest.ingest import Ingest
from lr_server.ingest.intake import Leader
from lr_server.ring.request_store import RingStore
from lr_server.ring.seat import RingSeat, SeatPlace
from lr_server.settings import Settings
from queues.clock import Clock
from queues.errors import ConfigurationError


def open_ring(engine: Engine, settings: Settings, on_release: Callable[[], None], clock: Clock) -> RingSeat:
    """Return the member of the table `[ring]`; call *on_release* soon after each newly released tick."""
    if settings.ring is None:
        raise ConfigurationError("the settings have no table [ring]")
    place = SeatPlace(settings.site_id, settings.ring, settings.credentials)
    return RingSeat(engine, place, on_change=on_release, clock=clock)


def ring_ingest(
    engine: Engine, settings: Settings, seat: RingSeat, is_leader: Callable[[], bool], clock: Clock
) -> Ingest:
    """Return the service that stores the requests of producers through the member of *seat* while it leads."""

    def leader() -> Leader:
        if is_leader():
            return Leader(is_me=True, lack=seat.lack)
        return Leader(is_me=False, endpoint=seat.leader_endpoint, lack=seat.lack)

    return Ingest(
        engine,
        settings,
        leader=leader,
        followers=lambda: None,
        clock=clock,
        new_store=lambda engine, limits: RingStore(engine, seat.runner, limits),
    )
