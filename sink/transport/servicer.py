"""Answers the calls of sources: a slot for each, then the frames for the `Sink`."""

import threading
from collections.abc import Iterator
from typing import Final

import grpc
from google.protobuf.message import DecodeError, Message

from queues.logs import logger
from queues.wire import replication_pb2 as pb
from sink.port import Sink
from sink.transport.admission import entered
from sink.transport.call_slots import CallSlots
from sink.transport.peer_identity import Verify, accept_any, verifier_of
from sink.transport.received_bytes import ReceivedBytes
from sink.transport.received_frames import FrameRefusedError, ReceivedFrames, corrupt

log = logger("lrq.sink")

#: The full name of the service.
REPLICATION: Final = pb.DESCRIPTOR.services_by_name["Replication"].full_name


class Servicer:
    """Parses frames itself, so that a damaged frame is refused like any other."""

    def __init__(
        self,
        sink: Sink,
        streams: CallSlots,
        negotiations: CallSlots,
        stopping: threading.Event,
        received: ReceivedBytes,
        *,
        verifies: bool,
    ) -> None:
        self._sink = sink
        self._streams = streams
        self._negotiations = negotiations
        self._stopping = stopping
        self._received = received
        self._verifies = verifies

    def negotiate(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> pb.NegotiateResponse:
        """Answer the only request; gRPC hands the call over before the request has come."""
        slot = entered(self._negotiations, context)
        try:
            asked = pb.NegotiateRequest.FromString(next(requests, b"\xff"))
        except DecodeError:
            return pb.NegotiateResponse(refusal=corrupt("the request for a negotiation cannot be read"))
        finally:
            self._negotiations.leave(slot)
        refusal = self._doubt(context)(asked.session)
        if refusal is None:
            return self._sink.negotiate(asked)
        log.warning("a caller was refused for its certificate", reason=refusal.reason)
        return pb.NegotiateResponse(refusal=refusal)

    def replicate(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[pb.Ack]:
        """Store the frames of one stream, and yield the answers."""
        slot = entered(self._streams, context)
        try:
            frames = ReceivedFrames(requests, self._doubt(context))
            for ack in self._sink.replicate(frames):
                if not ack.HasField("refusal"):
                    slot.confirm(frames.newest[:2])
                    self._received.add(*frames.newest)
                yield ack
                if self._stopping.is_set():
                    return
        except FrameRefusedError as error:
            yield pb.Ack(refusal=error.refusal)
        finally:
            self._streams.leave(slot)

    def _doubt(self, context: grpc.ServicerContext) -> Verify:
        # The type stubs declare other values than gRPC returns.
        return verifier_of(context.auth_context()) if self._verifies else accept_any  # type: ignore[arg-type]


def handlers(servicer: Servicer) -> grpc.GenericRpcHandler:
    """Return gRPC's handlers of the service."""
    answer, ack = pb.NegotiateResponse.SerializeToString, pb.Ack.SerializeToString
    methods: dict[str, grpc.RpcMethodHandler[bytes, Message]] = {
        "Negotiate": grpc.stream_unary_rpc_method_handler(servicer.negotiate, response_serializer=answer),
        "Replicate": grpc.stream_stream_rpc_method_handler(servicer.replicate, response_serializer=ack),
    }
    return grpc.method_handlers_generic_handler(REPLICATION, methods)
