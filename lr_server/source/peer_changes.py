"""The changes of the topology, as the sessions of a server and the tables of its site follow them."""

from collections.abc import Iterable, Mapping

from discovery.topology import Peer, Topology
from lr_server.session import table as session_table
from lr_server.session.context import SessionContext
from lr_server.source.replica_work import ReplicaWork
from lr_server.source.running_sessions import RunningSessions
from lr_server.source.session_rights import SessionRights
from queues import look_alikes
from queues.database.leases import Lease
from queues.database.transactions import reading
from queues.logs import logger
from queues.names import ClientName, SiteId
from queues.send_log.known_sites import KnownSites, read_known
from queues.send_log.sessions import active_keys

log = logger("lrq.supervisor")


class PeerChanges:
    """Follows each version of the topology once. For the supervisor's thread."""

    def __init__(
        self,
        topology: Topology,
        context: SessionContext,
        running: RunningSessions,
        rights: SessionRights,
        replicas: ReplicaWork,
        *,
        clients: frozenset[ClientName],
        known_only: bool,
        told: Iterable[tuple[str, str]],
    ) -> None:
        """Warn about site ids that look alike, but for the pairs in *told*."""
        self._topology = topology
        self._context = context
        self._running = running
        self._rights = rights
        self._replicas = replicas
        self._clients = clients
        self._known_only = known_only
        self._told = set(told)
        self._peers: Mapping[SiteId, Peer] = {}
        self._followed: int | None = None
        self._left: tuple[int, int] | None = None
        self._recorded: tuple[int, Lease] | None = None

    def follow(self) -> bool:
        """End the sessions of removed peers, and reconnect those of moved ones; return whether the topology is new."""
        version = self._topology.version
        is_new = version != self._followed
        if is_new:
            peers = self._topology.peers()
            self._tell_look_alikes(peers)
            self._running.end_where(lambda session: session.owed.destination not in peers, is_kept=False)
            self._reconnect(peers)
            self._followed = version
        self._leave_out()
        return is_new

    def record(self, lease: Lease | None) -> bool:
        """As the sequencer, record new known sites, and mark the sessions of all others inactive; return whether."""
        version = self._topology.version
        if lease is None or not version or self._recorded == (version, lease):
            return False
        # A group of replicas is a name that entries may have too.
        names = frozenset(self._topology.peers()) | self._topology.replicas().keys()
        known = KnownSites(names, self._clients, self._known_only)
        # A save in progress could make sessions of removed sites active again.
        with self._context.saving:
            session_table.follow(self._context.engine, lease, known)
        self._replicas.follow(lease)
        self._recorded = version, lease
        return True

    def _leave_out(self) -> None:
        """Mark the sessions with removed sites inactive, after each change of the peers or of the ranges.

        The sequencer may have marked them earlier. Then the server that led them saved them again, and perhaps ended.
        """
        seen = self._topology.version, self._rights.changes
        if not seen[0] or seen == self._left:
            return
        peers = self._topology.peers()
        with reading(self._context.engine) as connection:
            known, keys = read_known(connection), active_keys(connection)
        # A peer that only the sequencer knows yet is none that was removed.
        named = peers.keys() | (frozenset() if known is None else known.peers)
        leases = {key: self._rights.lease_of(key) for key in keys if key.destination not in named}
        session_table.deactivate(
            self._context.engine,
            {key: lease for key, lease in leases.items() if lease is not None},
            session_table.NO_PEER,
        )
        self._left = seen

    def _reconnect(self, peers: Mapping[SiteId, Peer]) -> None:
        """Make the sessions connect again whose site has another endpoint now."""
        for session in self._running.all():
            before, now = (known.get(session.owed.destination) for known in (self._peers, peers))
            if before != now and before is not None:
                session.reconnect("the site has another endpoint now")
        self._peers = peers

    def _tell_look_alikes(self, peers: Iterable[SiteId]) -> None:
        for pair in set(look_alikes.look_alikes([self._context.site, *peers])) - self._told:
            log.warning(look_alikes.warning(pair))
            self._told.add(pair)
