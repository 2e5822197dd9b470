"""The topology of one server, as its settings ask for it, and the endpoints that the server tells the others."""

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import Engine

from lr_server.settings import Settings
from lr_server.topology.addresses import has_wildcard, parse_network, reachable
from lr_server.topology.followed import FollowedTopology
from lr_server.topology.loading import FILE, TABLE, third_party
from lr_server.topology.machine import machine_addresses
from lr_server.topology.providers import FileProvider, PeerList, TableProvider, TopologyProvider
from lr_server.topology.rules import checked_peers
from queues.clock import Clock
from queues.logs import logger

log = logger("lrq.topology")

#: The words for the place of the peers, by the setting; other settings stand for themselves.
SOURCES: Final = {FILE: "the settings", TABLE: "the table lrq_peers"}
#: The settings that a reading of the file changes in a running server.
_RELOADED: Final = frozenset({"peers", "snapshot_endpoints", "replicas"})


def followed_topology(
    settings: Settings,
    engine: Engine,
    reread: Callable[[], Settings] | None,
    endpoints: Callable[[], Sequence[str]],
    clock: Clock,
    on_change: Callable[[], None],
) -> FollowedTopology:
    """Return the topology that *settings* name; *reread* returns the settings as the file has them then.

    No peer may have one of the *endpoints*, which are those of this server. Raises `ConfigurationError` if there is no
    such topology. See `FollowedTopology` for *on_change*.
    """
    name = settings.topology
    if name != FILE and settings.peers:
        log.warning("`peers` of the settings is not used", topology=name)
    if name != FILE and settings.replicas:
        log.warning("`replicas` of the settings is not used", topology=name)
    return FollowedTopology(
        provider_of(settings, lambda: engine, reread),
        SOURCES.get(name, name),
        check=lambda peers: checked_peers(peers, settings.own._replace(endpoints=tuple(endpoints()))),
        poll_seconds=None if name == FILE else settings.topology_poll_seconds,
        may_go_back=name == TABLE,
        clock=clock,
        on_change=on_change,
    )


def provider_of(
    settings: Settings, engine: Callable[[], Engine], reread: Callable[[], Settings] | None = None
) -> TopologyProvider:
    """Return the provider that *settings* name; *engine* is called if the provider reads the database.

    For *reread* and the errors see `followed_topology`.
    """
    if settings.topology == FILE:
        return _file(settings, reread)
    return TableProvider(engine()) if settings.topology == TABLE else third_party(settings.topology)


def _file(settings: Settings, reread: Callable[[], Settings] | None) -> FileProvider:
    def again() -> PeerList:
        if reread is None:
            return first
        found = reread()
        _tell_others(settings, found)
        return _listed(found)

    first = _listed(settings)
    return FileProvider(first, again)


def _listed(settings: Settings) -> PeerList:
    return PeerList(settings.peers, snapshot_endpoints=settings.snapshot_endpoints, replicas=dict(settings.replicas))


def _tell_others(before: Settings, now: Settings) -> None:
    """Warn about changed settings that only a new start can apply."""
    changed = [name for name in Settings.model_fields if getattr(before, name) != getattr(now, name)]
    if late := [name for name in changed if name not in _RELOADED]:
        log.warning("these settings change with the next start of the server only", settings=", ".join(late))


def advertised(listening: Sequence[str], networks: Sequence[str]) -> tuple[str, ...]:
    """Return the endpoints at which other servers of the site reach this one, which is *listening*.

    Raises `ConfigurationError` if no address of this machine is in *networks*.
    """
    machine = machine_addresses() if has_wildcard(listening) else ()
    return reachable(listening, machine, [parse_network(text) for text in networks])
