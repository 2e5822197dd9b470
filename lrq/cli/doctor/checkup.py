"""The order of all checks."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from discovery.topology import Peer, split_endpoints
from lrq.cli.doctor import configuration, database, java, libraries, own_files, peers, threads
from lrq.cli.doctor.bounded import Probe, examine, guarded
from lrq.cli.doctor.findings import Finding, told
from lrq.cli.doctor.topology import TopologyCheck
from lrq.cli.place import SitePlace, locate
from queues.clock import now_us
from queues.database.urls import parse
from queues.errors import ConfigurationError
from queues.names import SiteId

if TYPE_CHECKING:
    from lr_server import Settings

#: Seconds for the checks of the database, whose connection alone may take ten, and for each other check.
DATABASE_SECONDS: Final = 20.0
SECONDS: Final = 12.0
#: The connections of a server whose settings cannot be read: the default of `max_connections`.
CONNECTIONS: Final = 20


def checkup(config: Path | None, database_url: str | None, site: str | None) -> list[Finding]:
    """Examine a site and return all findings; the arguments are the options of the command."""
    settings, findings = configuration.load(config, {"database_url": database_url, "site_id": site})
    known: Mapping[SiteId, Peer] = {}
    if settings is not None:
        # The peers may stand in the database, so they are read before the other checks begin.
        topology = TopologyCheck(settings, SitePlace(parse(settings.database_url), settings.site))
        findings += examine([Probe("topology", topology.look, DATABASE_SECONDS)])
        known = topology.peers
    return findings + examine(_probes(config, database_url, site, settings, known))


def _probes(
    config: Path | None,
    database_url: str | None,
    site: str | None,
    settings: "Settings | None",
    known: Mapping[SiteId, Peer],
) -> Iterator[Probe]:
    yield Probe("database", partial(_database, config, database_url, site, settings), DATABASE_SECONDS)
    yield Probe("libraries", libraries.look, SECONDS)
    yield Probe("java", java.look, SECONDS)
    if settings is None:
        return
    from lr_server.topology.rules import is_attached

    attached = sum(is_attached(peer, endpoints) for peer, endpoints in known.items())
    yield Probe("threads", partial(threads.look, len(known), len(settings.client_names), attached), SECONDS)
    now = datetime.fromtimestamp(now_us() / 1_000_000, UTC)
    if settings.credentials is not None:
        yield Probe("tls", partial(own_files.look, settings.credentials, now), SECONDS)
    for peer, endpoints in sorted(known.items()):
        for text in dict.fromkeys(split_endpoints(f"{endpoints.endpoint},{endpoints.for_snapshots}")):
            yield _peer(f"peer {peer}", settings, peer, text, now)
    for source, listed in sorted(settings.attach.items()):
        for text in split_endpoints(listed):
            yield _peer(f"attach {source}", settings, source, text, now, setting="attach")


def _peer(check: str, settings: "Settings", site: str, text: str, now: datetime, setting: str = "peers") -> Probe:
    ask = partial(peers.look, check, settings.site_id, site, text, settings.credentials, now, setting)
    return Probe(check, partial(guarded, check, ask), SECONDS)


def _database(
    config: Path | None, database_url: str | None, site: str | None, settings: "Settings | None"
) -> Sequence[Finding]:
    """Look at the database even if other settings are wrong; then a missing place gives no second problem."""
    try:
        place = locate(config, database_url, site)
    except ConfigurationError as error:
        return [] if settings is None else [told("database", error)]
    return list(database.look(place, CONNECTIONS if settings is None else settings.max_connections))
