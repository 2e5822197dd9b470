"""Serves the members of this machine to the other members over gRPC, as a part of the site's service."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import grpc

from discovery.ring_status import RingStatus
from lr_server.ring.base_codec import encode_base, encode_requests
from lr_server.ring.codec import RingAddress, decode_parcel
from lr_server.ring.edge import RingParcel
from lr_server.ring.look import encode_status
from lr_server.ring.tick_codec import encode_tick
from queues.clock import SYSTEM_CLOCK, Clock
from queues.errors import LrqError, ProtocolError, TrimmedError, first_line
from queues.logs import logger
from queues.send_log.ring.log_base import LogBase, StoredRequest
from queues.send_log.ring.tick_contents import TickContent
from queues.wire import ring_pb2 as pb
from sink.transport.admission import entered
from sink.transport.call_slots import CallLimits, CallSlots
from sink.transport.peer_identity import certified_names

#: The most calls at one moment, for each token: both others, with room for calls that end late.
_CALLS_A_TOKEN: Final = 8
_RING: Final = pb.DESCRIPTOR.services_by_name["Ring"].full_name

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
        """Return the next ticks after number *after*.

        Raises `LrqError` if the log cannot be read, and `TrimmedError` if the next tick is trimmed.
        """
        ...

    def read_base(self) -> LogBase:
        """Return the beginning of the trimmed log; raise `LrqError` if it cannot be read."""
        ...

    def read_requests(self, after: int, upto: int) -> Sequence[StoredRequest]:
        """Return the next requests between two entries; raise `LrqError` if the log cannot be read."""
        ...


class RingServicer:
    """Answers the calls of other members, as a part of the site's service."""

    def __init__(
        self,
        members: Mapping[RingAddress, ServedMember],
        clock: Clock = SYSTEM_CLOCK,
        *,
        looks: Mapping[RingAddress, Callable[[], RingStatus]] | None = None,
    ) -> None:
        """Serve *members*, and their states of *looks*.

        With TLS, a caller's certificate must name the site of the member that it calls.
        """
        self._members = dict(members)
        self._looks = dict(looks or {})
        #: The most calls, each of which occupies a thread of the site's service.
        self.threads = _CALLS_A_TOKEN * max(len(members), 1)
        self._slots = CallSlots(CallLimits(self.threads, self.threads, 60.0, "members of a ring"), clock)

    @property
    def handlers(self) -> grpc.GenericRpcHandler:
        """GRPC's handlers of the service."""
        tell: grpc.RpcMethodHandler[bytes, pb.TellEnd] = grpc.stream_unary_rpc_method_handler(
            self._within_slot(self._tell), response_serializer=pb.TellEnd.SerializeToString
        )
        pull: grpc.RpcMethodHandler[pb.PullRequest, pb.PullReply] = grpc.unary_unary_rpc_method_handler(
            self._within_slot(self._pull),
            request_deserializer=pb.PullRequest.FromString,
            response_serializer=pb.PullReply.SerializeToString,
        )
        pull_base: grpc.RpcMethodHandler[pb.PullBaseRequest, pb.PullBaseReply] = grpc.unary_unary_rpc_method_handler(
            self._within_slot(self._pull_base),
            request_deserializer=pb.PullBaseRequest.FromString,
            response_serializer=pb.PullBaseReply.SerializeToString,
        )
        pull_requests: grpc.RpcMethodHandler[pb.PullRequestsRequest, pb.PullRequestsReply] = (
            grpc.unary_unary_rpc_method_handler(
                self._within_slot(self._pull_requests),
                request_deserializer=pb.PullRequestsRequest.FromString,
                response_serializer=pb.PullRequestsReply.SerializeToString,
            )
        )
        look: grpc.RpcMethodHandler[pb.LookRequest, pb.LookReply] = grpc.unary_unary_rpc_method_handler(
            self._within_slot(self._look),
            request_deserializer=pb.LookRequest.FromString,
            response_serializer=pb.LookReply.SerializeToString,
        )
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Tell": tell, "Pull": pull, "PullBase": pull_base, "PullRequests": pull_requests, "Look": look
        }  # fmt: skip
        return grpc.method_handlers_generic_handler(_RING, handlers)

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
        except TrimmedError as error:
            if error.oldest:
                return pb.PullReply(trimmed_seq=error.oldest)
            context.abort(grpc.StatusCode.UNAVAILABLE, f"there is no tick {request.after}")
        except LrqError as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, first_line(error))

    def _pull_base(self, request: pb.PullBaseRequest, context: grpc.ServicerContext) -> pb.PullBaseReply:
        member = self._member(RingAddress(request.site, request.token), context)
        try:
            return encode_base(member.read_base())
        except LrqError as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, first_line(error))

    def _pull_requests(self, request: pb.PullRequestsRequest, context: grpc.ServicerContext) -> pb.PullRequestsReply:
        member = self._member(RingAddress(request.site, request.token), context)
        try:
            return encode_requests(member.read_requests(request.after, request.upto))
        except LrqError as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, first_line(error))

    def _look(self, request: pb.LookRequest, context: grpc.ServicerContext) -> pb.LookReply:
        address = RingAddress(request.site, request.token)
        self._member(address, context)
        if address not in self._looks:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "this member tells no state")
        return encode_status(self._looks[address]())

    def _member(self, address: RingAddress, context: grpc.ServicerContext) -> ServedMember:
        member = self._members.get(address)
        if member is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"token {address.token} of site {address.site!r} is not here")
        # The type stubs declare other values than gRPC returns.
        names = certified_names(context.auth_context())  # type: ignore[arg-type]
        if names is not None and address.site not in names:
            reason = f"the certificate of a member must name site {address.site!r}"
            context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)
        return member
