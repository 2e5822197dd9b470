"""A `Sink` behind a network connection."""

import threading
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import grpc

from queues.errors import PeerUnreachableError, ProtocolError, first_line
from queues.thread_lack import NO_THREAD, reason_of
from queues.wire import replication_pb2 as pb
from queues.wire.replication_pb2_grpc import ReplicationStub
from sink.transport import call_errors, channels, core_room
from sink.transport.channels import Lane
from sink.transport.credentials import Credentials, needed
from sink.transport.ended_calls import let_go
from sink.transport.endpoints import IpcEndpoint, TcpEndpoint, TlsEndpoint
from sink.transport.outgoing_frames import OutgoingFrames

#: The time limit for the answer to a negotiation, in seconds.
NEGOTIATION_TIMEOUT: Final = 10.0

_REPLICATE: Final = f"/{pb.DESCRIPTOR.services_by_name['Replication'].full_name}/Replicate"
Call = TypeVar("Call", bound=grpc.RpcContext)


class RemoteSink:
    """See `Sink`; the connection is opened at the first use, and again after a failure."""

    def __init__(
        self,
        endpoint: TcpEndpoint | IpcEndpoint,
        *,
        credentials: Credentials | None = None,
        negotiation_timeout: float = NEGOTIATION_TIMEOUT,
        lane: Lane = Lane.LOG,
        count_bytes: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Wait at most *negotiation_timeout* seconds for the answer to a negotiation.

        Sinks of one *lane* share a connection to the endpoint. *count_bytes* gets the size of each frame, in bytes.
        *credentials* are for TLS only. Raises `ConfigurationError` if they are needed but unusable.
        """
        self._endpoint = endpoint
        self._timeout = negotiation_timeout
        pems = needed(credentials, endpoint).read() if isinstance(endpoint, TlsEndpoint) else None
        self._line = channels.take(endpoint.address, pems, lane)
        self._stub = ReplicationStub(self._line.channel)
        self._replicate = self._line.channel.stream_stream(
            _REPLICATE, request_serializer=_counted(count_bytes), response_deserializer=pb.Ack.FromString
        )
        self._guard = threading.Lock()
        self._calls: set[grpc.RpcContext] = set()
        self._is_closed = False

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        """See `Sink`."""
        call = self._begin(lambda: self._stub.Negotiate.future(request, timeout=self._timeout))
        try:
            return call.result()
        except grpc.FutureCancelledError as error:
            raise call_errors.closed(self._endpoint) from error
        except grpc.RpcError as error:
            let_go(error)
            raise self._mapped(error) from error
        finally:
            self._end(call)

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        """See `Sink`; another thread reads *frames*."""
        outgoing = OutgoingFrames(frames)
        del frames  # see `OutgoingFrames.release`
        call = self._begin(lambda: self._replicate(outgoing))
        acknowledged = 0
        try:
            for ack in call:
                acknowledged += 1
                yield ack
                if ack.HasField("refusal"):
                    return
        except grpc.RpcError as error:
            let_go(error)
            if not call_errors.is_too_large(error.code(), _details(error)):
                raise self._mapped(error) from error
            yield pb.Ack(refusal=pb.Refusal(kind=pb.Refusal.TOO_LARGE, reason=_details(error)))
            return
        finally:
            call.cancel()
            self._end(call)
            outgoing.release()
        outgoing.check()
        if not outgoing.finished or acknowledged < outgoing.sent:
            raise call_errors.stopped(self._endpoint)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def close(self) -> None:
        """See `Sink`."""
        with self._guard:
            if self._is_closed:
                return
            self._is_closed = True
            calls = list(self._calls)
        for call in calls:
            call.cancel()
        # A call was under way, so the connection may be dead without an error.
        channels.give_back(self._line, is_broken=bool(calls))

    def _begin(self, call: Callable[[], Call]) -> Call:
        with self._guard:
            if self._is_closed:
                raise call_errors.closed(self._endpoint)
            if not core_room.is_enough_for_call():
                raise PeerUnreachableError(NO_THREAD)
            begun = self._begun(call)
            self._calls.add(begun)
            return begun

    def _begun(self, call: Callable[[], Call]) -> Call:
        try:
            with self._line.beginning():
                return call()
        except RuntimeError as error:
            if lack := reason_of(error):
                raise PeerUnreachableError(lack) from error
            raise

    def _end(self, call: grpc.RpcContext) -> None:
        with self._guard:
            self._calls.discard(call)

    def _mapped(self, error: grpc.RpcError) -> PeerUnreachableError | ProtocolError:
        if self._is_closed:
            return call_errors.closed(self._endpoint)
        return call_errors.failed(self._endpoint, error.code(), _details(error), self._timeout)


def _counted(count_bytes: Callable[[int], None]) -> Callable[[pb.Frame], bytes]:
    def serialized(frame: pb.Frame) -> bytes:
        message = frame.SerializeToString()
        count_bytes(len(message))
        return message

    return serialized


def _details(error: grpc.RpcError) -> str:
    return first_line(error.details() or "")
