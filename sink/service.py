"""Serves a `Sink` over gRPC, at TCP ports, with TLS or without, and at Unix sockets."""

import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import grpc
from google.protobuf.message import DecodeError, Message

from queues.errors import ConfigurationError
from queues.logs import logger
from queues.wire import replication_pb2 as pb
from sink.callers import Doubt, believe, doubt_of
from sink.credentials import Credentials, Pems, needed
from sink.endpoints import IpcEndpoint, TcpEndpoint, TlsEndpoint, network_endpoint
from sink.port import Sink
from sink.writer import MAX_FRAME_BYTES

#: What a frame may have beside its rows: headers, keys and numbers, in bytes.
FRAME_OVERHEAD: Final = 4 * 1024 * 1024
#: Sessions that are served at the same time; each holds a thread while it lasts.
MAX_STREAMS: Final = 256
# Threads beyond those of streams, so that a full house can still negotiate.
_SPARE_THREADS = 8

log = logger("lrq.sink")

_OPTIONS = (
    # Two servers must never share a port without knowing.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
)


class SinkService:
    """A running server; `stop` it, or use it as a context manager."""

    def __init__(
        self, server: grpc.Server, threads: ThreadPoolExecutor, stopping: threading.Event, endpoints: Sequence[str]
    ) -> None:
        """See `serve`."""
        self._server = server
        self._threads = threads
        self._stopping = stopping
        #: Where it listens, with port 0 replaced by the real one.
        self.endpoints = tuple(endpoints)

    def stop(self, grace: float = 0.2) -> None:
        """End all streams; one that is at work finishes its frame, and within *grace* seconds also acknowledges it.

        Nothing is written any more when this returns. May be called twice.
        """
        self._stopping.set()
        self._server.stop(grace).wait()
        self._threads.shutdown(wait=True)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()


def serve(
    sink: Sink,
    listen: Sequence[str],
    *,
    credentials: Credentials | None = None,
    max_frame_bytes: int = MAX_FRAME_BYTES,
    max_streams: int = MAX_STREAMS,
) -> SinkService:
    """Serve *sink* at all endpoints of *listen*, for at most *max_streams* sessions at the same time.

    A Unix socket that a dead process left behind is replaced. By TLS only those are let in whose certificate is of the
    authority of *credentials*. Raises `ConfigurationError` for an endpoint where nobody can listen, and for
    credentials that are needed and cannot be used.
    """
    endpoints = [network_endpoint(text) for text in listen]
    for endpoint in endpoints:
        if isinstance(endpoint, IpcEndpoint):
            _clear_socket(endpoint)
    workers = max_streams + _SPARE_THREADS
    threads = ThreadPoolExecutor(workers, thread_name_prefix="lrq-sink")
    limits = (("grpc.max_receive_message_length", max_frame_bytes + FRAME_OVERHEAD),)
    server = grpc.server(threads, options=_OPTIONS + limits, maximum_concurrent_rpcs=workers)
    stopping = threading.Event()
    doubts = credentials is not None and credentials.verify_site
    server.add_generic_rpc_handlers((_handlers(_Servicer(sink, stopping, doubts=doubts)),))
    bound = [_bind(server, endpoint, credentials) for endpoint in endpoints]
    server.start()
    return SinkService(server, threads, stopping, [str(endpoint) for endpoint in bound])


def _bind(
    server: grpc.Server, endpoint: TcpEndpoint | IpcEndpoint, credentials: Credentials | None
) -> TcpEndpoint | IpcEndpoint:
    shown = _shown(needed(credentials, endpoint)) if isinstance(endpoint, TlsEndpoint) else None
    try:
        if shown is None:
            port = server.add_insecure_port(endpoint.address)
        else:
            port = server.add_secure_port(endpoint.address, shown)
    except RuntimeError as error:
        raise ConfigurationError(
            f"cannot listen at {endpoint}: it is in use, not an address of this machine, or not permitted"
        ) from error
    return replace(endpoint, port=port) if isinstance(endpoint, TcpEndpoint) else endpoint


def _shown(credentials: Credentials) -> grpc.ServerCredentials:
    """Return what gRPC shows and asks for; it looks for renewed files with every connection."""
    first = credentials.read()
    renewed = credentials.renewals(first)

    def look() -> grpc.ServerCertificateConfiguration | None:
        pems = renewed()
        return None if pems is None else _configuration(pems)

    # gRPC takes None for no change; its stubs do not know.
    return grpc.dynamic_ssl_server_credentials(_configuration(first), look, True)  # type: ignore[arg-type]


def _configuration(pems: Pems) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pems.key, pems.certificate)], pems.authority)


def _clear_socket(endpoint: IpcEndpoint) -> None:
    path = Path(endpoint.path)
    if not path.exists():
        return
    if not path.is_socket():
        raise ConfigurationError(f"cannot listen at {endpoint}: there is a file that is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(endpoint.path)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigurationError(f"cannot listen at {endpoint}: {error.strerror}") from error
        else:
            raise ConfigurationError(f"cannot listen at {endpoint}: another process does")


class _Servicer:
    """Reads frames from bytes itself, so that a damaged one is refused like any other."""

    def __init__(self, sink: Sink, stopping: threading.Event, *, doubts: bool) -> None:
        self._sink = sink
        self._stopping = stopping
        self._doubts = doubts

    def negotiate(self, request: bytes, context: grpc.ServicerContext) -> pb.NegotiateResponse:
        try:
            asked = pb.NegotiateRequest.FromString(request)
        except DecodeError:
            return pb.NegotiateResponse(refusal=_corrupt("the request for a negotiation cannot be read"))
        refusal = self._doubt(context)(asked.session)
        if refusal is None:
            return self._sink.negotiate(asked)
        log.warning("a caller is not believed", reason=refusal.reason)
        return pb.NegotiateResponse(refusal=refusal)

    def replicate(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[pb.Ack]:
        try:
            for ack in self._sink.replicate(_frames(requests, self._doubt(context))):
                yield ack
                if self._stopping.is_set():
                    return
        except _RefusedError as error:
            yield pb.Ack(refusal=error.refusal)

    def _doubt(self, context: grpc.ServicerContext) -> Doubt:
        # gRPC's stubs are wrong about what its values are.
        return doubt_of(context.auth_context()) if self._doubts else believe  # type: ignore[arg-type]


def _handlers(servicer: _Servicer) -> grpc.GenericRpcHandler:
    service = pb.DESCRIPTOR.services_by_name["Replication"]
    answer, ack = pb.NegotiateResponse.SerializeToString, pb.Ack.SerializeToString
    methods: dict[str, grpc.RpcMethodHandler[bytes, Message]] = {
        "Negotiate": grpc.unary_unary_rpc_method_handler(servicer.negotiate, response_serializer=answer),
        "Replicate": grpc.stream_stream_rpc_method_handler(servicer.replicate, response_serializer=ack),
    }
    return grpc.method_handlers_generic_handler(service.full_name, methods)


class _RefusedError(Exception):
    """A frame that never gets to the sink."""

    def __init__(self, refusal: pb.Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def _frames(messages: Iterator[bytes], doubt: Doubt) -> Iterator[pb.Frame]:
    for message in messages:
        try:
            frame = pb.Frame.FromString(message)
        except DecodeError as error:
            raise _RefusedError(_corrupt(f"a frame of {len(message)} bytes cannot be read")) from error
        refusal = doubt(frame.session)
        if refusal is not None:
            log.warning("a caller is not believed", reason=refusal.reason)
            raise _RefusedError(refusal)
        yield frame


def _corrupt(reason: str) -> pb.Refusal:
    return pb.Refusal(kind=pb.Refusal.CORRUPT, reason=reason)
