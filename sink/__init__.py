"""The receiving side of a site: one port, used in-process or over gRPC."""

from typing import TYPE_CHECKING, Final

import lrq_packages

if TYPE_CHECKING:
    from sink.port import Sink
    from sink.transport.remote import RemoteSink
    from sink.transport.service import SinkService, serve
    from sink.writer import SinkWriter

_HOMES: Final = {
    "RemoteSink": "sink.transport.remote",
    "Sink": "sink.port",
    "SinkService": "sink.transport.service",
    "SinkWriter": "sink.writer",
    "serve": "sink.transport.service",
}

__all__ = [
    "RemoteSink",
    "Sink",
    "SinkService",
    "SinkWriter",
    "serve",
]

if not TYPE_CHECKING:  # otherwise a type checker believes every misspelt name
    __getattr__ = lrq_packages.lazy(__name__, _HOMES)
