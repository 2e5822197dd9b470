"""Answers the calls of sources: a slot for each, then the frames for the `Sink`."""

import threading
from collections.abc import Iterator
from typing import Final

import grpc
from google.protobuf.message import DecodeError, Message

from queues.block_limits import COUNTED_FROM, check_parts
from queues.errors import CorruptFrameError
from queues.logs import logger
from queues.wire import replication_pb2 as pb
from sink.port import Sink
from sink.transport.admission import entered
from sink.transport.call_slots import CallSlots
from sink.transport.peer_identity import Verify, accept_any, verifier_of
from sink.transport.received_bytes import ReceivedBytes

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
            return pb.NegotiateResponse(refusal=_corrupt("the request for a negotiation cannot be read"))
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
            frames = _Frames(requests, self._doubt(context))
            for ack in self._sink.replicate(frames):
                if not ack.HasField("refusal"):
                    slot.confirm(frames.newest[:2])
                    self._received.add(*frames.newest)
                yield ack
                if self._stopping.is_set():
                    return
        except _RefusedError as error:
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


class _RefusedError(Exception):
    """The frame was refused before it reached the sink."""

    def __init__(self, refusal: pb.Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


#: The fields of a frame that hold ticks or blocks.
_LISTS = frozenset(pb.Frame.DESCRIPTOR.fields_by_name[name].number for name in ("batch", "snapshot_chunk"))


class _Frames:
    """The frames of one stream; `newest` has the client, the source and the bytes of the last one."""

    def __init__(self, messages: Iterator[bytes], verify: Verify) -> None:
        self._messages = messages
        self._verify = verify
        self.newest = ("", "", 0)

    def __iter__(self) -> Iterator[pb.Frame]:
        return self

    def __next__(self) -> pb.Frame:
        message = next(self._messages)
        try:
            if len(message) > COUNTED_FROM:
                check_parts(message, _LISTS)
            frame = pb.Frame.FromString(message)
        except CorruptFrameError as error:
            raise _RefusedError(_corrupt(str(error))) from error
        except DecodeError as error:
            raise _RefusedError(_corrupt(f"a frame of {len(message)} bytes cannot be read")) from error
        refusal = self._verify(frame.session)
        if refusal is not None:
            log.warning("a caller was refused for its certificate", reason=refusal.reason)
            raise _RefusedError(refusal)
        self.newest = (frame.session.client, frame.session.source, len(message))
        return frame


def _corrupt(reason: str) -> pb.Refusal:
    return pb.Refusal(kind=pb.Refusal.CORRUPT, reason=reason)
