"""Serves a `Sink` over gRPC: at TCP ports, with or without TLS, and at Unix sockets."""

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
from sink.port import Sink
from sink.transport.credentials import Credentials, Pems, needed
from sink.transport.endpoints import IpcEndpoint, TcpEndpoint, TlsEndpoint, network_endpoint
from sink.transport.peer_identity import Verify, accept_any, verifier_of
from sink.writer import MAX_FRAME_BYTES

#: The most bytes of a frame beside its rows: headers, keys and numbers.
FRAME_OVERHEAD: Final = 4 * 1024 * 1024
#: The most sessions that are served at one moment; each occupies a thread.
MAX_STREAMS: Final = 256
# Threads for negotiations when every stream has its thread.
_SPARE_THREADS = 8

log = logger("lrq.sink")

_OPTIONS = (
    # Two servers must not listen at the same port without an error.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
)


class SinkService:
    """A running server; call `stop`, or use it as a context manager."""

    def __init__(
        self, server: grpc.Server, threads: ThreadPoolExecutor, stopping: threading.Event, endpoints: Sequence[str]
    ) -> None:
        """See `serve`."""
        self._server = server
        self._threads = threads
        self._stopping = stopping
        #: The endpoints where the server listens; port 0 is replaced by the real one.
        self.endpoints = tuple(endpoints)

    def stop(self, grace: float = 0.2) -> None:
        """End all streams; a frame in progress is finished, and within *grace* seconds also acknowledged.

        No write happens after the return. May be called twice.
        """
        self._stopping.set()
        self._server.stop(grace).wait()
        self._threads.shutdown(wait=True)

    def __enter__(self) -> Self:
        """Return this service."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the service."""
        self.stop()


def serve(
    sink: Sink,
    listen: Sequence[str],
    *,
    credentials: Credentials | None = None,
    max_frame_bytes: int = MAX_FRAME_BYTES,
    max_streams: int = MAX_STREAMS,
) -> SinkService:
    """Serve *sink* at all endpoints of *listen*, for at most *max_streams* sessions at one moment.

    The socket file of a dead process is replaced. With TLS, a peer needs a certificate of the authority in
    *credentials*. Raises `ConfigurationError` for an endpoint where listening fails, and for credentials that are
    needed but unusable.
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
    verifies = credentials is not None and credentials.verify_site
    server.add_generic_rpc_handlers((_handlers(_Servicer(sink, stopping, verifies=verifies)),))
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
            f"cannot listen at {endpoint}: the address is in use, not of this machine, or not permitted"
        ) from error
    return replace(endpoint, port=port) if isinstance(endpoint, TcpEndpoint) else endpoint


def _shown(credentials: Credentials) -> grpc.ServerCredentials:
    """Return gRPC's credentials; gRPC checks for renewed files at every connection."""
    first = credentials.read()
    renewed = credentials.renewals(first)

    def look() -> grpc.ServerCertificateConfiguration | None:
        pems = renewed()
        return None if pems is None else _configuration(pems)

    # None means no change to gRPC; its type stubs omit that.
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
    """Parses frames itself, so that a damaged frame is refused like any other."""

    def __init__(self, sink: Sink, stopping: threading.Event, *, verifies: bool) -> None:
        self._sink = sink
        self._stopping = stopping
        self._verifies = verifies

    def negotiate(self, request: bytes, context: grpc.ServicerContext) -> pb.NegotiateResponse:
        try:
            asked = pb.NegotiateRequest.FromString(request)
        except DecodeError:
            return pb.NegotiateResponse(refusal=_corrupt("the request for a negotiation cannot be read"))
        refusal = self._doubt(context)(asked.session)
        if refusal is None:
            return self._sink.negotiate(asked)
        log.warning("a caller was refused for its certificate", reason=refusal.reason)
        return pb.NegotiateResponse(refusal=refusal)

    def replicate(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[pb.Ack]:
        try:
            for ack in self._sink.replicate(_frames(requests, self._doubt(context))):
                yield ack
                if self._stopping.is_set():
                    return
        except _RefusedError as error:
            yield pb.Ack(refusal=error.refusal)

    def _doubt(self, context: grpc.ServicerContext) -> Verify:
        # The type stubs declare other values than gRPC returns.
        return verifier_of(context.auth_context()) if self._verifies else accept_any  # type: ignore[arg-type]


def _handlers(servicer: _Servicer) -> grpc.GenericRpcHandler:
    service = pb.DESCRIPTOR.services_by_name["Replication"]
    answer, ack = pb.NegotiateResponse.SerializeToString, pb.Ack.SerializeToString
    methods: dict[str, grpc.RpcMethodHandler[bytes, Message]] = {
        "Negotiate": grpc.unary_unary_rpc_method_handler(servicer.negotiate, response_serializer=answer),
        "Replicate": grpc.stream_stream_rpc_method_handler(servicer.replicate, response_serializer=ack),
    }
    return grpc.method_handlers_generic_handler(service.full_name, methods)


class _RefusedError(Exception):
    """The frame was refused before it reached the sink."""

    def __init__(self, refusal: pb.Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def _frames(messages: Iterator[bytes], verify: Verify) -> Iterator[pb.Frame]:
    for message in messages:
        try:
            frame = pb.Frame.FromString(message)
        except DecodeError as error:
            raise _RefusedError(_corrupt(f"a frame of {len(message)} bytes cannot be read")) from error
        refusal = verify(frame.session)
        if refusal is not None:
            log.warning("a caller was refused for its certificate", reason=refusal.reason)
            raise _RefusedError(refusal)
        yield frame


def _corrupt(reason: str) -> pb.Refusal:
    return pb.Refusal(kind=pb.Refusal.CORRUPT, reason=reason)
