"""The way of a source to each of its sinks: within the process, or over the network by a lane."""

from discovery.topology import Topology, peer_of, split_endpoints
from lr_server.session.routes import Routes
from lr_server.session.traffic import Traffic
from lr_server.settings import Settings
from queues.clock import Clock
from queues.names import SiteId
from queues.send_log.port import SessionKey
from sink import local
from sink.port import Sink
from sink.transport.channels import Lane
from sink.transport.endpoints import IpcEndpoint, LocalEndpoint, TcpEndpoint, parse_endpoint
from sink.transport.probe import SinkProbe
from sink.transport.remote import NEGOTIATION_TIMEOUT, RemoteSink


class SinkConnector:
    """Connects sessions to the endpoints of their peers. For several threads."""

    def __init__(self, settings: Settings, topology: Topology, traffic: Traffic, clock: Clock) -> None:
        """Find the peers in *topology*; the bytes of connections count in *traffic*."""
        self._settings = settings
        self._topology = topology
        self._traffic = traffic
        self.routes = Routes(settings.site, clock, self._look_for)

    def connect(self, owed: SessionKey, *, for_snapshots: bool) -> Sink:
        """See `lr_server.session.context.Connect`."""
        peer = peer_of(self._topology, owed.destination)
        listed = peer.for_snapshots if for_snapshots else peer.endpoint
        endpoint = parse_endpoint(self.routes.endpoint(owed, listed))
        if isinstance(endpoint, LocalEndpoint):
            return local.find(endpoint.site)
        return self._dial(owed, endpoint, Lane.SNAPSHOTS if for_snapshots else Lane.LOG)

    def has_snapshot_way(self, owed: SessionKey) -> bool:
        """Return whether snapshots of the session travel by a connection of their own."""
        peer = peer_of(self._topology, owed.destination)
        # Within a process there is no connection to share.
        return peer.for_snapshots != peer.endpoint or not _is_local(peer.endpoint)

    def reaches_locally(self, destination: SiteId) -> bool:
        """Return whether *destination* is a peer in this process."""
        peer = self._topology.peers().get(destination)
        return peer is not None and _is_local(peer.endpoint)

    def _look_for(self, endpoint: str) -> SinkProbe:
        return SinkProbe(parse_endpoint(endpoint), credentials=self._settings.credentials)

    def _dial(self, owed: SessionKey, endpoint: TcpEndpoint | IpcEndpoint, lane: Lane) -> Sink:
        timeout = min(NEGOTIATION_TIMEOUT, self._settings.stall_seconds)
        return RemoteSink(
            endpoint, credentials=self._settings.credentials, negotiation_timeout=timeout, lane=lane,
            count_bytes=self._traffic.of(owed).add_bytes,
        )  # fmt: skip


def _is_local(listed: str) -> bool:
    """Return whether all *listed* endpoints are those of sites in this process."""
    return all(isinstance(parse_endpoint(each), LocalEndpoint) for each in split_endpoints(listed))
