"""A producer of few lines that speaks the protocol by itself."""

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self

import grpc

from queues.wire import ingest_pb2 as pb
from queues.wire.ingest_pb2_grpc import IngestStub


def message(payload: bytes, *to: str, **fields: Any) -> pb.ProducedMessage:
    return pb.ProducedMessage(payload=payload, destinations=to or ("tokyo",), **fields)


def request(sequence: int, *payloads: bytes, producer: str = "meter", client: str = "policy") -> pb.ProduceRequest:
    return pb.ProduceRequest(
        client=client, producer=producer, sequence=sequence, messages=[message(payload) for payload in payloads]
    )


class RawProducer:
    """A connection to one server; without credentials over TCP or a Unix socket."""

    def __init__(self, endpoint: str, credentials: grpc.ChannelCredentials | None = None) -> None:
        address = endpoint.replace("ipc://", "unix:").removeprefix("tcp://").removeprefix("tls://")
        options = (("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
        self.channel = (
            grpc.insecure_channel(address, options)
            if credentials is None
            else grpc.secure_channel(address, credentials, options)
        )
        self.stub = IngestStub(self.channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.channel.close()

    def send(self, requests: Iterable[pb.ProduceRequest], timeout: float = 30.0) -> list[pb.ProduceReply]:
        return list(self.stream(iter(requests), timeout))

    def stream(self, requests: Iterator[pb.ProduceRequest], timeout: float | None = None) -> Any:
        return self.stub.Produce(requests, timeout=timeout, wait_for_ready=True)
