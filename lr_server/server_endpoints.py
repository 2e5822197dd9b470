"""The endpoints of one server: those of the sink and the services beside it, and that of the metrics.

A sink that its sources cannot reach has no endpoint, and is attached to them instead.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from discovery.site_status import SiteStatus
from discovery.topology import split_endpoints
from lr_server.health import Health
from lr_server.ingest.ingest import Ingest
from lr_server.metrics.metrics_server import MetricsServer
from lr_server.metrics.traffic import ServerTraffic
from lr_server.ring.ring_servicer import RingServicer
from lr_server.settings import Settings
from lr_server.site_topology import advertised
from lr_server.socket_files import SocketFiles
from queues.clock import Clock
from queues.names import ClientName, SiteId
from sink.attachment.attached_line import AttachTo
from sink.attachment.attacher import Attacher
from sink.attachment.servicer import AttachmentServicer
from sink.transport.endpoints import network_endpoint
from sink.transport.health import HealthService
from sink.transport.received_bytes import ReceivedStream
from sink.transport.service import SinkService, serve
from sink.writer import SinkWriter


class ServerEndpoints:
    """Listens where *settings* say: for peers from `listen` to `close`, and for metrics to `close_metrics`."""

    def __init__(
        self, settings: Settings, beside: Sequence[Ingest | RingServicer | AttachmentServicer], clock: Clock
    ) -> None:
        """Serve the services *beside* that of the sink at the same endpoints."""
        self._settings = settings
        self._beside = beside
        self._clock = clock
        self._service: SinkService | None = None
        self._attacher: Attacher | None = None
        self._metrics: MetricsServer | None = None
        self._sockets = SocketFiles(())
        #: The endpoints at which the other servers of the site reach this one.
        self.advertised: tuple[str, ...] = ()

    @property
    def listening(self) -> tuple[str, ...]:
        """The endpoints where the server listens for peers, with port 0 replaced by the real port."""
        return self._service.endpoints if self._service is not None else ()

    @property
    def metrics(self) -> str:
        """The address of the metrics; empty without them."""
        return self._metrics.address if self._metrics else ""

    @property
    def received(self) -> Mapping[ReceivedStream, int]:
        """The bytes that have come from each peer."""
        parts = [each.received.totals for each in (self._service, self._attacher) if each is not None]
        return sum((Counter(part) for part in parts), Counter())

    def listen(self, writer: SinkWriter, checks: HealthService) -> None:
        """Serve *writer* and the services beside it, attach *writer* to sources, and answer *checks* of the health.

        Raises `ConfigurationError` for an endpoint where the server cannot listen, and for wrong TLS files.
        """
        settings = self._settings
        if settings.credentials:
            settings.credentials.read()
        if settings.listen:
            self._service = serve(
                writer,
                settings.listen,
                credentials=settings.credentials,
                max_frame_bytes=settings.max_message_bytes,
                max_streams=settings.max_streams,
                max_streams_per_caller=settings.max_streams_per_caller,
                first_frame_seconds=settings.first_frame_seconds,
                more=[each.handlers for each in self._beside],
                more_streams=sum(each.threads for each in self._beside),
                health=checks,
                clock=self._clock,
            )
            self._sockets = SocketFiles(self._service.endpoints)
        if settings.attach:
            self._attacher = Attacher(
                writer, settings.site, _servers(settings.attach),
                credentials=settings.credentials, max_frame_bytes=settings.max_message_bytes,
                max_streams=settings.max_streams, clock=self._clock,
            )  # fmt: skip
            self._attacher.start()

    def listen_for_metrics(
        self, status: Callable[[], SiteStatus], traffic: Callable[[], ServerTraffic], health: Health
    ) -> None:
        """Serve the metrics and the pages of the *health*, if the settings ask for them."""
        if self._settings.metrics:
            self._metrics = MetricsServer(self._settings.metrics, status, traffic=traffic, health=health)

    def advertise(self) -> None:
        """Find `advertised` once the server listens; raise `ConfigurationError` if no address suits the settings."""
        self.advertised = advertised(self.listening, self._settings.preferred_network)

    @property
    def trouble(self) -> str:
        """The reason why calls of peers wait for a thread; empty if none does."""
        service = self._service
        return "" if service is None else service.trouble

    @property
    def attachment_trouble(self) -> str:
        """Why the server is not attached to a source; empty while it is attached to all of the settings."""
        attacher = self._attacher
        return "" if attacher is None else attacher.trouble

    @property
    def socket_trouble(self) -> str:
        """See `SocketFiles`."""
        return self._sockets.trouble

    def end_streams(self, client: ClientName, source: SiteId) -> None:
        """See `SinkService.end_streams`."""
        for each in (self._service, self._attacher):
            if each is not None:
                each.end_streams(client, source)

    def close(self) -> None:
        """Listen no more for peers, and be attached to none."""
        self._sockets = SocketFiles(())
        for each in (self._service, self._attacher):
            if each is not None:
                each.stop()
        self._service = self._attacher = None

    def close_metrics(self) -> None:
        """Serve no metrics and no pages any more."""
        if self._metrics is not None:
            self._metrics.stop()
        self._metrics = None


def _servers(attach: Mapping[str, str]) -> Iterator[AttachTo]:
    for source, listed in attach.items():
        for text in split_endpoints(listed):
            yield AttachTo(SiteId(source), network_endpoint(text))
