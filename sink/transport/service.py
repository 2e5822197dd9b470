"""Serves a `Sink` over gRPC: at TCP ports, with or without TLS, and at Unix sockets."""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

import grpc

from queues.clock import SYSTEM_CLOCK, Clock
from queues.errors import ConfigurationError
from queues.logs import logger
from queues.thread_lack import NO_THREAD, reason_of
from sink.port import Sink
from sink.transport import core_room
from sink.transport.call_slots import CallLimits, CallSlots
from sink.transport.call_threads import CallThreads
from sink.transport.credentials import Credentials
from sink.transport.endpoints import network_endpoint
from sink.transport.health import HealthService
from sink.transport.listening import bind, clear
from sink.transport.received_bytes import ReceivedBytes
from sink.transport.servicer import Servicer, handlers
from sink.writer import MAX_FRAME_BYTES

#: The most bytes of a frame beside its rows: headers, keys and numbers.
FRAME_OVERHEAD: Final = 4 * 1024 * 1024
#: The most sessions that are served at one moment; each occupies a thread.
MAX_STREAMS: Final = 1024
#: The time limit for the first valid frame of a stream, in seconds.
FIRST_FRAME_SECONDS: Final = 60.0
# Negotiations whose request has not come yet; each occupies a thread. A request usually comes with the call.
_NEGOTIATIONS = CallLimits(32, 16, 10.0, "negotiations without a request")
# Threads for work of a moment: complete negotiations, and calls that are turned away.
_SPARE_THREADS = 16
# The shortest time between two looks for calls that have no valid message in time, in seconds.
_SHORTEST_PAUSE = 0.05
# Calls that wait for a thread; gRPC itself turns further calls away.
_WAITING = 1024

log = logger("lrq.sink")

_OPTIONS = (
    # Two servers must not listen at the same port without an error.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 20_000),
    # The answer of a source waits behind up to 1 MiB of a frame. A slow line needs half a minute for that.
    ("grpc.keepalive_timeout_ms", 60_000),
    ("grpc.http2.ping_timeout_ms", 60_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    # Blocks are compressed already. Without this, a small message could become a very large one. 1: no compression.
    ("grpc.compression_enabled_algorithms_bitset", 1),
)


class SinkService:
    """A running server; call `stop`, or use it as a context manager."""

    def __init__(
        self,
        server: grpc.Server,
        threads: CallThreads,
        watch: threading.Thread,
        stopping: threading.Event,
        endpoints: Sequence[str],
        received: ReceivedBytes,
        health: HealthService | None,
        streams: CallSlots,
    ) -> None:
        """See `serve`."""
        self._server = server
        self._threads = threads
        self._watch = watch
        self._stopping = stopping
        #: The endpoints where the server listens; port 0 is replaced by the real one.
        self.endpoints = tuple(endpoints)
        self.received = received
        self._health = health
        self._streams = streams

    @property
    def trouble(self) -> str:
        """The reason why calls wait for a thread; empty if none does."""
        return self._threads.trouble

    def end_streams(self, client: str, source: str) -> None:
        """End the streams of one session; its source negotiates again, also one that has nothing to send."""
        self._streams.end_session((client, source))

    def stop(self, grace: float = 0.2) -> None:
        """End all streams; a frame in progress is finished, and within *grace* seconds also acknowledged.

        No write happens after the return. May be called twice.
        """
        self._stopping.set()
        if self._health is not None:
            self._health.close()
        _end(self._server, grace)
        self._threads.shutdown(wait=True)
        self._watch.join()

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
    max_streams_per_caller: int | None = None,
    first_frame_seconds: float = FIRST_FRAME_SECONDS,
    more: Sequence[grpc.GenericRpcHandler] = (),
    more_streams: int = 0,
    health: HealthService | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> SinkService:
    """Serve *sink* at all endpoints of *listen*, for at most *max_streams* sessions at one moment.

    One caller has at most *max_streams_per_caller*, by default half of them. A stream whose first valid frame does not
    come within *first_frame_seconds* is ended. A caller is a certificate, or an address without TLS.
    *more* services are served at the same endpoints, with threads for *more_streams* of their streams.
    *health* answers at the same endpoints, too.
    The socket file of a dead process is replaced. With TLS, a peer needs a certificate of the authority in
    *credentials*. Raises `ConfigurationError` for an endpoint where listening fails, and for credentials that are
    needed but unusable.
    """
    endpoints = [network_endpoint(text) for text in listen]
    if not core_room.is_enough():
        raise ConfigurationError(NO_THREAD)
    for endpoint in endpoints:
        clear(endpoint)
    asked = () if health is None else health.slots
    workers = max_streams + _NEGOTIATIONS.total + more_streams + _SPARE_THREADS
    workers += 0 if health is None else health.threads
    threads = CallThreads(workers)
    limits = (("grpc.max_receive_message_length", max_frame_bytes + FRAME_OVERHEAD),)
    server = grpc.server(threads, options=_OPTIONS + limits, maximum_concurrent_rpcs=workers + _WAITING)
    stopping = threading.Event()
    per_caller = max_streams_per_caller or (max_streams + 1) // 2
    streams = CallSlots(_stream_limits(max_streams, per_caller, first_frame_seconds), clock)
    negotiations = CallSlots(_NEGOTIATIONS, clock)
    verifies = credentials is not None and credentials.verify_site
    received = ReceivedBytes()
    servicer = Servicer(sink, streams, negotiations, stopping, received, verifies=verifies)
    checks = () if health is None else (health.handlers(),)
    server.add_generic_rpc_handlers((handlers(servicer), *more, *checks))
    try:
        bound = [bind(server, endpoint, credentials) for endpoint in endpoints]
    except BaseException:
        # Otherwise the endpoints before the refused one would stay in use. gRPC frees them only after a start.
        server.start()
        server.stop(None).wait()
        raise
    server.start()
    watch = threading.Thread(
        target=_look_after,
        args=((streams, negotiations, *asked), threads, stopping, clock),
        name="lrq-sink-watch",
        daemon=True,
    )
    watch.start()
    return SinkService(
        server, threads, watch, stopping, [str(endpoint) for endpoint in bound], received, health, streams
    )


def _stream_limits(total: int, per_caller: int, patience: float) -> CallLimits:
    return CallLimits(total, per_caller, patience, "sessions", "max_streams", "max_streams_per_caller")


def _end(server: grpc.Server, grace: float) -> None:
    try:
        server.stop(grace).wait()
    except RuntimeError as error:
        if not reason_of(error):
            raise
        # Only the grace needs a thread.
        server.stop(None).wait()


def _look_after(kinds: Sequence[CallSlots], threads: CallThreads, stopping: threading.Event, clock: Clock) -> None:
    pause = max(min(slots.limits.patience for slots in kinds) / 10, _SHORTEST_PAUSE)
    while not clock.wait(stopping, pause):
        threads.retry()
        for slots in kinds:
            for slot in slots.end_overdue():
                log.warning(
                    "a call without a valid message was ended",
                    caller=slot.caller or "a process of this machine",
                    seconds=slots.limits.patience,
                )
