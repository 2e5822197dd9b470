"""Settings that contradict each other, each told in one sentence."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from sqlalchemy import make_url

from discovery.topology import Peer
from lr_server.ring_setting import check_ring
from lr_server.setting_types import producers_problem
from lr_server.topology.loading import FILE
from lr_server.topology.rules import checked_peers, is_attached, speaks_tls
from queues import look_alikes
from queues.database import urls
from queues.errors import ConfigurationError
from queues.logs import logger
from queues.replica_groups import checked_groups
from queues.send_log.port import TickLimits
from queues.send_snapshot.block_packer import TAKEN_BLOCK_BYTES
from sink.transport.endpoints import TlsEndpoint, parse_endpoint

if TYPE_CHECKING:
    from lr_server.settings import Settings

log = logger("lrq.settings")

#: The largest size of a frame without its rows, in bytes.
FRAME_OVERHEAD_BYTES: Final = 64 * 1024

_TLS: Final = ("tls_certificate", "tls_key", "tls_authority")


def check_together(settings: "Settings") -> None:
    """Raise `ConfigurationError` where one setting contradicts another."""
    _check_tls(settings)
    _check_peers(settings)
    _check_sizes(settings)
    _check_ingest(settings)
    _check_ring(settings)
    _check_times(settings)


def _check_tls(settings: "Settings") -> None:
    missing = [name for name in _TLS if getattr(settings, name) is None]
    members = settings.ring.members if settings.ring else ()
    reached = (*settings.peer_table.values(), *map(Peer, settings.attach.values()))
    is_used = _are_tls([*settings.listen, *members]) or speaks_tls(reached)
    if missing and (len(missing) < len(_TLS) or is_used):
        raise ConfigurationError(f"{missing[0]} is missing: tls:// needs {', '.join(_TLS)}")
    if settings.tls_verify_site and not _are_tls(settings.listen):
        raise ConfigurationError(
            "tls_verify_site is on, but nothing in `listen` begins with tls://: add such an endpoint"
        )


def _are_tls(endpoints: Iterable[str]) -> bool:
    return any(isinstance(parse_endpoint(endpoint), TlsEndpoint) for endpoint in endpoints)


def _check_peers(settings: "Settings") -> None:
    for pair in settings.look_alikes:
        log.warning(look_alikes.warning(pair))
    peers = checked_peers(settings.peer_table, settings.own)
    if not settings.listen and (attached := [site for site, peer in peers.items() if is_attached(site, peer)]):
        raise ConfigurationError(
            f"peers[{attached[0]}]: {attached[0]} attaches itself to an endpoint of this site, and nothing is in "
            "`listen`: add one, such as tls://0.0.0.0:7400"
        )
    if settings.site_id in settings.attach:
        raise ConfigurationError(f"attach names {settings.site_id!r}, which is this site itself: remove that source")
    if settings.topology == FILE:
        checked_groups(settings.replicas, peers)


def _check_sizes(settings: "Settings") -> None:
    needed = max(settings.max_payload_bytes + settings.max_batch_bytes, settings.tick_bytes) + FRAME_OVERHEAD_BYTES
    if settings.max_message_bytes < needed:
        raise ConfigurationError(
            f"max_message_bytes is {settings.max_message_bytes}, but a tick, or a batch and the largest payload, need "
            f"{needed}: raise max_message_bytes, or lower tick_bytes and max_payload_bytes"
        )
    if settings.max_message_bytes < TAKEN_BLOCK_BYTES:
        raise ConfigurationError(
            f"max_message_bytes is {settings.max_message_bytes}, but a block of a snapshot may need "
            f"{TAKEN_BLOCK_BYTES}: set at least {TAKEN_BLOCK_BYTES}"
        )


def _check_ingest(settings: "Settings") -> None:
    if settings.require_followers and urls.is_sqlite(make_url(settings.database_url)):
        raise ConfigurationError(
            "require_followers needs PostgreSQL, because SQLite has no standby servers: remove require_followers"
        )
    if problem := producers_problem(settings.producers, ingest=settings.ingest, listens=bool(settings.listen)):
        raise ConfigurationError(problem)


def _check_ring(settings: "Settings") -> None:
    if settings.ring:
        check_ring(
            settings.ring,
            site=settings.site_id,
            database_url=settings.database_url,
            listens=bool(settings.listen),
            ingest=settings.ingest,
            initial_sync=settings.initial_sync,
            replicas=settings.replicas,
            max_message_bytes=settings.max_message_bytes,
            tick=TickLimits(settings.tick_rows, settings.tick_bytes),
        )


def _check_times(settings: "Settings") -> None:
    if settings.acknowledged_retention_seconds > settings.retention_seconds:
        raise ConfigurationError(
            f"acknowledged_retention_seconds is {settings.acknowledged_retention_seconds:g}, but no entry is kept for "
            f"more than the {settings.retention_seconds:g} of retention_seconds: raise retention_seconds"
        )
    if settings.retry_cap_seconds < settings.retry_first_seconds:
        raise ConfigurationError("retry_cap_seconds is below retry_first_seconds: raise retry_cap_seconds")
    if settings.stall_seconds <= settings.heartbeat_seconds:
        raise ConfigurationError("stall_seconds must be above heartbeat_seconds, or quiet sessions look stalled")
