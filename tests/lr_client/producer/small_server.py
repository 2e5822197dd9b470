"""A small real gRPC server of `Ingest`: stores in memory by the rules of proto/ingest.proto, with faults on order."""

import sys
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc

from queues.wire import ingest_pb2 as pb
from queues.wire import replication_pb2
from queues.wire.ingest_pb2_grpc import IngestServicer, add_IngestServicer_to_server

Refusal = pb.ProduceRefusal


@dataclass
class MemoryLog:
    """The stored requests of all producers; several servers may share one log."""

    stored: dict[tuple[str, str], list[pb.ProduceRequest]] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def payloads(self, client: str = "meters", producer: str = "meter-17") -> list[bytes]:
        """Return the payloads of one producer, in order."""
        return [each.payload for request in self.stored.get((client, producer), []) for each in request.messages]


class SmallServer(IngestServicer):
    """One server; `faults` are used up in order, one for each numbered request.

    A kind of refusal refuses the request. "cut" ends the stream before the store, and "mute" after the store, without
    an answer. "end" ends the stream as an idle one. None stores and answers.
    """

    def __init__(self, log: "MemoryLog | None" = None, listen: str = "127.0.0.1:0", credentials: Any = None) -> None:
        self.log = log or MemoryLog()
        self.faults: deque[Any] = deque()
        self.always: Any = None
        self.leader = ""
        self.streams = 0
        #: The number of requests that have arrived, without questions.
        self.arrived = 0
        self.held = threading.Event()
        self.held.set()
        self._threads = ThreadPoolExecutor(80)
        self._server = grpc.server(
            self._threads, options=[("grpc.so_reuseport", 0), ("grpc.http2.max_ping_strikes", 0)]
        )
        add_IngestServicer_to_server(self, self._server)
        if credentials is None:
            self.port = self._server.add_insecure_port(listen)
        else:
            self.port = self._server.add_secure_port(listen, credentials)
        self._server.start()

    @property
    def endpoint(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def Produce(self, request_iterator: Iterator[pb.ProduceRequest], context: Any) -> Iterator[pb.ProduceReply]:  # noqa: N802
        self.streams += 1
        for request in _unpacked(request_iterator):
            if request.sequence:
                self.held.wait(60)
            fault = self._fault(request)
            if fault == "cut":
                context.abort(grpc.StatusCode.UNAVAILABLE, "cut before the store")
            if fault == "end":
                return
            reply = self._reply(request, fault)
            if fault == "mute":
                context.abort(grpc.StatusCode.UNAVAILABLE, "cut after the store")
            yield reply
            if reply.HasField("refusal"):
                return

    def _fault(self, request: pb.ProduceRequest) -> Any:
        if not request.sequence:
            return None
        self.arrived += 1
        return self.faults.popleft() if self.faults else self.always

    def _reply(self, request: pb.ProduceRequest, fault: Any) -> pb.ProduceReply:
        with self.log.guard:
            mine = self.log.stored.setdefault((request.client, request.producer), [])
            if not request.sequence:
                return _stored(len(mine)) if mine else pb.ProduceReply()
            if isinstance(fault, int):
                return self._refused(request, fault)
            if request.sequence > len(mine) + 1:
                return self._refused(request, Refusal.GAP, len(mine))
            if request.sequence == len(mine) + 1:
                mine.append(request)
        return _stored(request.sequence)

    def _refused(self, request: pb.ProduceRequest, kind: Any, last: int = 0) -> pb.ProduceReply:
        refusal = Refusal(kind=kind, reason=f"refused as {Refusal.Kind.Name(kind)}", last_sequence=last)
        return pb.ProduceReply(sequence=request.sequence, refusal=refusal, leader=self.leader)

    def stop(self) -> None:
        self.held.set()
        self._server.stop(0).wait()
        self._threads.shutdown()


def _stored(sequence: int) -> pb.ProduceReply:
    position = replication_pb2.Position(branch="b", seq=sequence)
    return pb.ProduceReply(sequence=sequence, position=position, token=f"paris/meters/b/{sequence}")


def _unpacked(messages: Iterator[pb.ProduceRequest]) -> Iterator[pb.ProduceRequest]:
    for message in messages:
        yield from [pb.ProduceRequest.FromString(each) for each in message.requests] or [message]


def main() -> None:
    """Serve in a process of its own until a line comes on the input; prints the endpoint."""
    server = SmallServer()
    print(server.endpoint, flush=True)
    sys.stdin.readline()
    server.stop()


if __name__ == "__main__":
    main()
