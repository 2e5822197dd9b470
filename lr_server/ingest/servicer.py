"""Serves the streams of producers over gRPC, as a part of the site's service."""

import threading
from collections.abc import Callable, Collection, Iterator
from typing import Final

import grpc

from lr_server.ingest.intake import Intake
from lr_server.ingest.pending import Settle
from lr_server.ingest.stream import ProduceStream, Take, UnknownOutcomeError
from queues.clock import Clock
from queues.logs import logger
from queues.produce_envelope import EXPECTS_LARGE
from queues.wire import ingest_pb2 as pb
from sink.transport.admission import entered
from sink.transport.call_slots import CallLimits, CallSlots
from sink.transport.peer_identity import certified_names

#: The most streams of producers at one moment; each occupies two threads until it is quiet.
STREAMS: Final = 256
#: The most streams of one caller: a certificate, or an address without TLS.
STREAMS_PER_CALLER: Final = 192

#: With at most so many streams, each may be quiet for longer: see `stream.CALM_QUIET`.
CALM: Final = 64

#: The full name of the service.
INGEST: Final = pb.DESCRIPTOR.services_by_name["Ingest"].full_name

log = logger("lrq.ingest")

#: Returns the intake of one stream, by the names of the caller's certificate; None without TLS.
Accept = Callable[[Collection[str] | None, Settle], Intake]


class IngestServicer:
    """Answers `Produce`; *accept* begins each stream."""

    def __init__(self, accept: Accept, clock: Clock) -> None:
        self._accept = accept
        self._clock = clock
        self._slots = CallSlots(CallLimits(STREAMS, STREAMS_PER_CALLER, 60.0, "streams of producers"), clock)
        self._streams: set[ProduceStream] = set()
        self._guard = threading.Lock()

    def produce(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[pb.ProduceReply]:
        """Take the requests of one stream, and yield the replies in their order."""
        slot = entered(self._slots, context)
        try:
            yield from self._answered(requests, context)
        finally:
            self._slots.leave(slot)

    def _answered(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[pb.ProduceReply]:
        expects_large = EXPECTS_LARGE in (context.invocation_metadata() or ())
        stream = ProduceStream(self._clock, lambda: len(self._streams) <= CALM, expects_large=expects_large)
        # The type stubs declare other values than gRPC returns.
        intake = self._accept(certified_names(context.auth_context()), stream.settle)  # type: ignore[arg-type]
        with self._guard:
            self._streams.add(stream)
        try:
            context.add_callback(stream.end)
            reading = stream, requests, intake.take
            threading.Thread(target=_reading, args=reading, name="lrq-ingest-stream", daemon=True).start()
            yield from stream.replies()
        except UnknownOutcomeError:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the outcome of a request is unknown: repeat the request")
        finally:
            stream.end()
            intake.close()
            with self._guard:
                self._streams.discard(stream)

    def streams(self) -> int:
        """Return the number of open streams."""
        return len(self._streams)

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return gRPC's handlers of the service."""
        answer = pb.ProduceReply.SerializeToString
        produce: grpc.RpcMethodHandler[bytes, pb.ProduceReply] = grpc.stream_stream_rpc_method_handler(
            self.produce, response_serializer=answer
        )
        return grpc.method_handlers_generic_handler(INGEST, {"Produce": produce})


def _reading(stream: ProduceStream, requests: Iterator[bytes], take: Take) -> None:
    try:
        stream.read(requests, take)
    except grpc.RpcError:
        # The producer has gone, or the call was ended; gRPC tells no more.
        stream.end()
    except Exception:
        log.exception("a stream of a producer has ended by an error of its own")
        stream.end()
