"""A sink that attaches itself to a source, in one process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme

from queues.clock import SYSTEM_CLOCK
from queues.names import SiteId
from sink import serve
from sink.attachment.attached_line import AttachTo
from sink.attachment.attached_sink import AttachedSink
from sink.attachment.attacher import Attacher
from sink.attachment.attachments import Attachments
from sink.attachment.servicer import AttachmentServicer
from sink.port import Sink
from sink.transport.credentials import Credentials
from sink.transport.endpoints import network_endpoint
from tests.certificates import issued
from tests.waiting import eventually

TOKYO, PARIS = SiteId("tokyo"), SiteId("paris")


@dataclass(frozen=True)
class Source:
    """The side of paris: its endpoint, and the servers that are attached there."""

    endpoint: str
    attachments: Attachments

    def sink(self, **options: Any) -> AttachedSink:
        """Return the sink of tokyo."""
        return AttachedSink(TOKYO, self.attachments, **options)

    def attacher(self, sink: Sink, source: SiteId = PARIS, **options: Any) -> Attacher:
        """Return an attacher of tokyo, which has not begun."""
        return Attacher(sink, TOKYO, [AttachTo(source, network_endpoint(self.endpoint))], **options)

    def await_tokyo(self) -> None:
        """Wait until tokyo is attached."""
        eventually(lambda: self.attachments.is_attached(TOKYO))


@contextmanager
def source(
    unused: Sink, *, listen: str = "tcp://127.0.0.1:0", credentials: Credentials | None = None
) -> Iterator[Source]:
    """Serve attachments of tokyo at paris; its own sink is *unused*."""
    attachments = Attachments()
    servicer = AttachmentServicer(
        PARIS, attachments, lambda site: "" if site == TOKYO else f"paris knows no {site}", SYSTEM_CLOCK
    )
    more = {"more": [servicer.handlers], "more_streams": servicer.threads}
    with serve(unused, [listen], credentials=credentials, **more) as service:
        yield Source(service.endpoints[0], attachments)


@contextmanager
def attached(writer: Sink, folder: Path) -> Iterator[AttachedSink]:
    """Yield *writer*, the sink of tokyo, as paris sees it once tokyo has attached itself by TLS."""
    credentials = issued(trustme.CA(), folder, "127.0.0.1", "tokyo")
    with source(writer, listen="tls://127.0.0.1:0", credentials=credentials) as paris:
        attacher, sink = paris.attacher(writer, credentials=credentials), paris.sink()
        attacher.start()
        try:
            paris.await_tokyo()
            yield sink
        finally:
            sink.close()
            attacher.stop()
