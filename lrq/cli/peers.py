"""The peers of a site for `lrq peer list`, from the place that the setting `topology` names."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Engine

from discovery.topology import Peer
from lrq.cli.words import plural
from queues.database.peers import read_table
from queues.database.transactions import reading
from queues.errors import ConfigurationError, LrqError, SetupError
from queues.leadership import ServerRow
from queues.names import SiteId
from queues.replica_groups import NO_GROUPS, Groups, checked_groups
from queues.words import describe

if TYPE_CHECKING:
    from lr_server import Settings


class ListedPeers(NamedTuple):
    """The peers of a site; `version` is None for a place without versions."""

    source: str
    version: int | None
    peers: Mapping[SiteId, Peer]
    replicas: Groups = NO_GROUPS

    def as_json(self) -> dict[str, Any]:
        """Return the facts of `lrq peer list --json`, without the servers."""
        peers = [{"site": site, **peer._asdict()} for site, peer in sorted(self.peers.items())]
        return {"source": self.source, "version": self.version, "peers": peers}


def read_peers(settings: "Settings", engine: Callable[[], Engine]) -> ListedPeers:
    """Read the peers where a server with *settings* would, perhaps in the database of *engine*.

    Raises `ConfigurationError` if the peers are wrong, and the error of a provider as one.
    """
    from lr_server.site_topology import SOURCES, provider_of
    from lr_server.topology.providers import required
    from lr_server.topology.rules import checked_peers

    provider = provider_of(settings, engine)
    try:
        found = required(provider.read())
    except LrqError:
        raise
    except Exception as error:
        raise ConfigurationError(f"topology {settings.topology!r} cannot be read ({describe(error)})") from error
    peers = checked_peers(found.by_site, settings.own)
    groups = checked_groups(found.replicas, peers)
    return ListedPeers(SOURCES.get(settings.topology, settings.topology), found.version, peers, groups)


def unlisted(topology: str, listed: ListedPeers, engine: Engine) -> str | None:
    """Return the sentence for an empty list of the settings beside a table with peers; otherwise None.

    A role that may not read the table gets no sentence.
    """
    from lr_server.topology.loading import FILE, TABLE

    if topology != FILE or listed.peers:
        return None
    try:
        with reading(engine) as connection:
            count = len(read_table(connection).rows)
    except SetupError:
        return None
    if not count:
        return None
    return (
        f'the table lrq_peers has {plural(count, "peer")}, but the settings here say topology = "{FILE}": '
        f'name a file with topology = "{TABLE}" by --config, or set LRQ_TOPOLOGY={TABLE}'
    )


def followed(servers: Mapping[str, ServerRow], listed: ListedPeers) -> Iterator[str]:
    """Yield one sentence for each living server that follows other peers than the *listed* ones. Pure."""
    from lrq.cli.views.status import topology_words
    from lrq.cli.views.status_tables import owner_words

    for name, row in servers.items():
        facts = row.topology
        is_other = facts.source != listed.source or (listed.version is not None and facts.version != listed.version)
        if facts.source and is_other:
            yield f"{owner_words(name)} has its peers {topology_words(facts)}"
        if facts.trouble:
            yield f"{owner_words(name)} keeps its peers: {facts.trouble}"
