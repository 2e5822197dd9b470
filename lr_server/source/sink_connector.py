"""The way of a source to each of its sinks: within the process, or over the network by a lane."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from discovery.topology import Topology, peer_of, split_endpoints
from lr_server.session.routes import Routes
from lr_server.session.stream_threads import StreamThreads
from lr_server.session.traffic import Traffic
from lr_server.settings import Settings
from queues.clock import Clock
from queues.names import SiteId
from queues.send_log.port import SessionKey
from sink import local
from sink.attachment.attached_sink import AttachedSink
from sink.attachment.attachments import Attachments
from sink.local_sink import LocalSink
from sink.port import RestingSink, Sink
from sink.transport import network_loop
from sink.transport.channels import Lane
from sink.transport.endpoints import AttachedEndpoint, LocalEndpoint, NetworkEndpoint, parse_endpoint
from sink.transport.loop_sink import LoopSink
from sink.transport.probe import EndedProbe, EndpointProbe, SinkProbe
from sink.transport.remote import NEGOTIATION_TIMEOUT, RemoteSink

#: So many sessions with work have threads of their own. All others share some.
THREADED: Final = 32
#: The threads that make the frames of the other sessions.
WORKERS: Final = 8


class SinkConnector:
    """Connects sessions to the endpoints of their peers. For several threads."""

    def __init__(
        self, settings: Settings, topology: Topology, attachments: Attachments, traffic: Traffic, clock: Clock
    ) -> None:
        """Find the peers in *topology*, or in *attachments*; the bytes of connections count in *traffic*."""
        self._settings = settings
        self._topology = topology
        self._attachments = attachments
        self._traffic = traffic
        self.routes = Routes(settings.site, clock, self._look_for)
        self.stream_threads = StreamThreads(lambda owed: traffic.of(owed).work_done, clock, THREADED)
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="lrq-frames")

    def connect(self, owed: SessionKey, *, for_snapshots: bool, is_slow: bool) -> Sink | RestingSink:
        """See `lr_server.session.context.Connect`."""
        peer = peer_of(self._topology, owed.destination)
        listed = peer.for_snapshots if for_snapshots else peer.endpoint
        endpoint = parse_endpoint(self.routes.endpoint(owed, listed))
        if isinstance(endpoint, LocalEndpoint):
            self.stream_threads.forget(owed)
            return LocalSink(local.find(endpoint.site), self._workers)
        if isinstance(endpoint, AttachedEndpoint):
            self.stream_threads.forget(owed)
            return AttachedSink(
                endpoint.site, self._attachments, for_snapshots=for_snapshots, is_slow=is_slow,
                negotiation_timeout=self._timeout, count_bytes=self._traffic.of(owed).add_bytes,
            )  # fmt: skip
        if for_snapshots:
            return self._dial(owed, endpoint, Lane.SLOW_SNAPSHOTS if is_slow else Lane.SNAPSHOTS)
        return self._dial(owed, endpoint, Lane.SLOW_LOG if is_slow else Lane.LOG)

    def close(self) -> None:
        """End the shared threads, after the end of all sessions. Does not wait."""
        self._workers.shutdown(wait=False)

    def has_snapshot_way(self, owed: SessionKey) -> bool:
        """Return whether snapshots of the session travel by a connection of their own."""
        peer = peer_of(self._topology, owed.destination)
        # Within a process there is no connection to share.
        return peer.for_snapshots != peer.endpoint or not _is_local(peer.endpoint)

    def reaches_locally(self, destination: SiteId) -> bool:
        """Return whether *destination* is a peer in this process."""
        peer = self._topology.peers().get(destination)
        return peer is not None and _is_local(peer.endpoint)

    def _look_for(self, text: str) -> EndpointProbe:
        endpoint = parse_endpoint(text)
        if isinstance(endpoint, AttachedEndpoint):
            return EndedProbe(reached=self._attachments.is_attached(endpoint.site))
        return SinkProbe(endpoint, credentials=self._settings.credentials)

    @property
    def _timeout(self) -> float:
        return min(NEGOTIATION_TIMEOUT, self._settings.stall_seconds)

    def _dial(self, owed: SessionKey, endpoint: NetworkEndpoint, lane: Lane) -> Sink | RestingSink:
        timeout = self._timeout
        credentials, count_bytes = self._settings.credentials, self._traffic.of(owed).add_bytes
        threaded = partial(
            RemoteSink, endpoint, credentials=credentials, negotiation_timeout=timeout, lane=lane,
            count_bytes=count_bytes,
        )  # fmt: skip
        if not network_loop.is_usable():
            return threaded()
        return self.stream_threads.place(owed, threaded) or LoopSink(
            endpoint, self._workers, credentials=credentials, negotiation_timeout=timeout, lane=lane,
            count_bytes=count_bytes,
        )  # fmt: skip


def _is_local(listed: str) -> bool:
    """Return whether all *listed* endpoints are those of sites in this process."""
    return all(isinstance(parse_endpoint(each), LocalEndpoint) for each in split_endpoints(listed))
