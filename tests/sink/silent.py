"""A caller that begins calls and sends nothing."""

import queue

import grpc

from queues.wire import replication_pb2 as pb
from sink.transport.endpoints import network_endpoint


class SilentCalls:
    """Calls of one caller that send nothing."""

    def __init__(self, endpoint: str, method: str, count: int) -> None:
        self._channel = grpc.insecure_channel(network_endpoint(endpoint).address)
        self._end: queue.SimpleQueue[None] = queue.SimpleQueue()
        call = self._channel.stream_stream(f"/lrq.Replication/{method}", response_deserializer=pb.Ack.FromString)
        self._count = count
        self.calls = [call(iter(self._end.get, None)) for _ in range(count)]

    def turned_away(self) -> list[str]:
        """Return the reasons of the calls that have ended."""
        return [call.details() for call in self.calls if call.done()]

    def close(self) -> None:
        for call in self.calls:
            call.cancel()
        for _ in range(self._count):
            self._end.put(None)
        self._channel.close()
