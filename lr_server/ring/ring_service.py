"""Serves the tokens of this machine to the other members over gRPC."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

import grpc

from lr_server.ring.codec import RingAddress, decode_parcel
from lr_server.ring.edge import RingParcel
from lr_server.ring.links import MOST_MESSAGE_BYTES
from lr_server.ring.tick_codec import encode_tick
from queues.clock import SYSTEM_CLOCK, Clock
from queues.errors import LrqError, ProtocolError, first_line
from queues.logs import logger
from queues.send_log.ring.tick_contents import TickContent
from queues.wire import ring_pb2 as pb
from sink.transport.admission import entered
from sink.transport.call_slots import CallLimits, CallSlots
from sink.transport.credentials import Credentials
from sink.transport.endpoints import network_endpoint
from sink.transport.listening import bind, clear

#: The most calls at one moment, for each token: both others, with room for calls that end late.
_CALLS_A_TOKEN: Final = 8
_SPARE_THREADS: Final = 4
_RING: Final = pb.DESCRIPTOR.services_by_name["Ring"].full_name
_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
)

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

log = logger("lrq.ring")


class ServedMember(Protocol):
    """A member of this machine, as the others reach it."""

    @property
    def rank(self) -> int:
        """The member's rank in its token."""
        ...

    def receive(self, parcel: RingParcel) -> bool:
        """Take a parcel, or lose it and return False. Never waits."""
        ...

    def read(self, after: int) -> Sequence[TickContent]:
        """Return the next ticks after number *after*; raise `LrqError` if the log cannot be read."""
        ...


class RingService:
    """The members of this machine at one or more endpoints; call `stop` at the end."""

    def __init__(
        self,
        members: Mapping[RingAddress, ServedMember],
        listen: Sequence[str],
        *,
        credentials: Credentials | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Listen; with TLS a caller needs a certificate of the authority in *credentials*.

        Raises `ConfigurationError` for an endpoint where listening fails, and for unusable credentials.
        """
        endpoints = [network_endpoint(text) for text in listen]
        for endpoint in endpoints:
            clear(endpoint)
        self._members = dict(members)
        calls = _CALLS_A_TOKEN * max(len(members), 1)
        self._slots = CallSlots(CallLimits(calls, calls, 60.0, "members of a ring"), clock)
        self._threads = ThreadPoolExecutor(calls + _SPARE_THREADS, thread_name_prefix="lrq-ring")
        self._server = grpc.server(self._threads, options=_OPTIONS, maximum_concurrent_rpcs=2 * calls + _SPARE_THREADS)
        self._server.add_generic_rpc_handlers((self._handlers(),))
        #: The endpoints where the service listens; port 0 is replaced by the real one.
        self.endpoints = tuple(str(bind(self._server, endpoint, credentials)) for endpoint in endpoints)
        self._server.start()

    def stop(self) -> None:
        """End all calls. May be called twice."""
        self._server.stop(0.2).wait()
        self._threads.shutdown(wait=True)

    def _handlers(self) -> grpc.GenericRpcHandler:
        tell: grpc.RpcMethodHandler[bytes, pb.TellEnd] = grpc.stream_unary_rpc_method_handler(
            self._within_slot(self._tell), response_serializer=pb.TellEnd.SerializeToString
        )
        pull: grpc.RpcMethodHandler[pb.PullRequest, pb.PullReply] = grpc.unary_unary_rpc_method_handler(
            self._within_slot(self._pull),
            request_deserializer=pb.PullRequest.FromString,
            response_serializer=pb.PullReply.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(_RING, {"Tell": tell, "Pull": pull})

    def _within_slot(
        self, answer: Callable[[Asked, grpc.ServicerContext], Answer]
    ) -> Callable[[Asked, grpc.ServicerContext], Answer]:
        def answered(request: Asked, context: grpc.ServicerContext) -> Answer:
            slot = entered(self._slots, context)
            try:
                return answer(request, context)
            finally:
                self._slots.leave(slot)

        return answered

    def _tell(self, frames: Iterator[bytes], context: grpc.ServicerContext) -> pb.TellEnd:
        try:
            for frame in frames:
                addressed = decode_parcel(frame)
                member = self._member(addressed.address, context)
                if addressed.receiver != member.rank:
                    raise ProtocolError(f"a message for rank {addressed.receiver} came to rank {member.rank}")
                member.receive(addressed.parcel)
        except ProtocolError as error:
            log.warning("a member of the ring has sent nonsense", reason=str(error))
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, first_line(error))
        except grpc.RpcError:
            # The caller has gone; gRPC tells no more.
            pass
        return pb.TellEnd()

    def _pull(self, request: pb.PullRequest, context: grpc.ServicerContext) -> pb.PullReply:
        member = self._member(RingAddress(request.site, request.token), context)
        try:
            return pb.PullReply(ticks=map(encode_tick, member.read(request.after)))
        except LrqError as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, first_line(error))

    def _member(self, address: RingAddress, context: grpc.ServicerContext) -> ServedMember:
        member = self._members.get(address)
        if member is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"token {address.token} of site {address.site!r} is not here")
        return member
