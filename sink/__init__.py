"""The receiving side of a site: one port, used in-process or over gRPC."""

import lrq_packages  # noqa: F401 - says in one sentence which other package has the name of one of ours
from sink.port import Sink
from sink.transport.remote import RemoteSink
from sink.transport.service import SinkService, serve
from sink.writer import SinkWriter

__all__ = ["RemoteSink", "Sink", "SinkService", "SinkWriter", "serve"]
