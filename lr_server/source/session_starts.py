"""The start of sessions: those that entries, links and requests for snapshots call for."""

from collections.abc import Iterable, Sequence

from discovery.topology import Topology
from lr_server.session import table as session_table
from lr_server.session.context import SessionContext
from lr_server.session.runner import Session
from lr_server.source.link_changes import LinkChanges
from lr_server.source.replica_work import ReplicaWork
from lr_server.source.running_sessions import RunningSessions
from lr_server.source.session_rights import SessionRights
from queues.database.transactions import reading
from queues.names import ClientName
from queues.send_log.named_sites import named_sites
from queues.send_log.port import SessionKey
from queues.send_log.reads import source_clients
from queues.send_log.sessions import every_key
from queues.send_snapshot import SnapshotSync


class SessionStarts:
    """Begins sessions: once an entry of the client names the peer, or a snapshot is requested for the peer.

    For the supervisor's thread.
    """

    def __init__(
        self,
        topology: Topology,
        context: SessionContext,
        clients: frozenset[ClientName],
        running: RunningSessions,
        rights: SessionRights,
        links: LinkChanges,
        replicas: ReplicaWork,
    ) -> None:
        """Begin sessions of *clients* only; empty for every client."""
        self._topology = topology
        self._context = context
        self._clients = clients
        self._running = running
        self._rights = rights
        self._links = links
        self._replicas = replicas

    def begin(self, requests: Iterable[SnapshotSync]) -> None:
        """Begin the sessions that do not run yet; *requests* are the newest ones for snapshots."""
        missing = self._missing(requests)
        if missing:
            # A change of the groups may have made the sessions: its sequence must be known before the first tick.
            self._replicas.look(at_once=True)
        for owed in missing:
            replaced = session_table.ensure(self._context.engine, owed)
            with self._running.guard:
                leadership = self._rights.leadership(owed)
                if leadership is not None:
                    self._running.begin(Session(owed, self._context, leadership, replaced=replaced))

    def _missing(self, requests: Iterable[SnapshotSync]) -> Sequence[SessionKey]:
        """Return the wanted sessions that do not run yet; reads no further than necessary."""
        peers, draining, ended = self._topology.peers(), self._links.draining, self._links.ended
        with reading(self._context.engine) as connection:
            # A client without an entry may have a link that ends.
            clients = self._clients or {*source_clients(connection), *(owed.client for owed in draining)}
            pairs = (SessionKey(client, peer) for client in clients for peer in peers)
            if not any(self._may_begin(pair) and pair not in ended for pair in pairs):
                return []
            asked = {SessionKey(each.client, each.destination) for each in requests if not each.finished}
            wanted = asked.union(named_sites(connection), every_key(connection), draining) - ended
        return sorted(
            owed for owed in wanted if owed.destination in peers and owed.client in clients and self._may_begin(owed)
        )

    def _may_begin(self, owed: SessionKey) -> bool:
        return self._running.get(owed) is None and self._rights.lease_of(owed) is not None
