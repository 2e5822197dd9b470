"""The receiving side of a site: one port, in-process or over gRPC."""

import lrq  # noqa: F401 - tells in one sentence when other packages have the names of ours
from sink.port import PROTOCOL, Sink
from sink.remote import RemoteSink
from sink.service import SinkService, serve
from sink.writer import SinkWriter

__all__ = ["PROTOCOL", "RemoteSink", "Sink", "SinkService", "SinkWriter", "serve"]
