"""Check the peers as a whole: where they come from, whether they are right, and whether the servers follow them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from discovery.topology import Peer
from lrq.cli.doctor.database import plain_engine
from lrq.cli.doctor.findings import Finding, ok, told, warning
from lrq.cli.peers import ListedPeers, followed, read_peers
from lrq.cli.place import SitePlace
from lrq.cli.words import plural
from queues.database import servers
from queues.errors import LrqError
from queues.names import SiteId

if TYPE_CHECKING:
    from lr_server import Settings

_CHECK: Final = "topology"


class TopologyCheck:
    """One look at the peers; `peers` has them after `look`, and none after a problem."""

    def __init__(self, settings: "Settings", place: SitePlace) -> None:
        """Prepare to look where a server with *settings* reads its peers."""
        self._settings = settings
        self._place = place
        self.peers: Mapping[SiteId, Peer] = {}

    def look(self) -> list[Finding]:
        """Return the findings about the place of the peers, and about the servers that work now."""
        with ExitStack() as stack:
            try:
                listed = read_peers(self._settings, lambda: stack.enter_context(plain_engine(self._place)))
            except LrqError as error:
                return [told(_CHECK, error, "correct the peers")]
            self.peers = listed.peers
        return [*_listed(listed, self._settings), *self._servers(listed)]

    def _servers(self, listed: ListedPeers) -> list[Finding]:
        try:
            with plain_engine(self._place) as engine:
                living = servers.look(engine).living
        except LrqError:
            return []  # the check of the database tells that
        cure = "look again in a moment, then at the log of that server"
        return [warning(_CHECK, sentence, cure) for sentence in followed(living, listed)]


def _listed(listed: ListedPeers, settings: "Settings") -> Iterator[Finding]:
    from lr_server.topology.loading import FILE

    version = "" if listed.version is None else f", version {listed.version}"
    yield ok(_CHECK, f"{plural(len(listed.peers), 'peer')} in {listed.source}{version}")
    for name, members in listed.replicas.items():
        yield ok(_CHECK, f"{name} stands for {', '.join(members)}")
    if settings.topology != FILE and settings.peers:
        yield warning(
            _CHECK,
            f"`peers` of the settings has {plural(len(settings.peers), 'site')} that no server uses",
            f'remove `peers`, or set topology = "{FILE}"',
        )
