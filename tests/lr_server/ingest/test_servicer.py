"""A stream of a producer gives its slot back, also if the stream cannot begin."""

from collections.abc import Collection, Iterator
from contextlib import ExitStack

import grpc
import pytest

from lr_server.ingest.intake import Intake
from lr_server.ingest.pending import Settle
from lr_server.ingest.servicer import STREAMS_PER_CALLER, IngestServicer
from queues.clock import SYSTEM_CLOCK
from queues.wire import replication_pb2 as pb
from sink import serve
from sink.transport.endpoints import network_endpoint


class NoSink:
    """A sink that no source reaches."""

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        raise NotImplementedError

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        raise NotImplementedError

    def close(self) -> None:
        """Hold nothing."""


def refuse(_certified: Collection[str] | None, _settle: Settle) -> Intake:
    raise RuntimeError("the machine has no thread left")


def test_streams_that_cannot_begin_take_no_slot_from_later_ones() -> None:
    servicer = IngestServicer(refuse, SYSTEM_CLOCK)
    with ExitStack() as stack:
        service = stack.enter_context(
            serve(NoSink(), ["tcp://127.0.0.1:0"], more=[servicer.handlers()], more_streams=4)
        )
        address = network_endpoint(service.endpoints[0]).address
        produce = stack.enter_context(grpc.insecure_channel(address)).stream_stream("/lrq.Ingest/Produce")
        for _ in range(STREAMS_PER_CALLER + 1):
            with pytest.raises(grpc.RpcError) as ended:
                list(produce(iter(())))
            assert ended.value.code() is grpc.StatusCode.UNKNOWN
