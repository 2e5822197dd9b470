"""A prototype: one frame and its acknowledgement over gRPC, as lrq sends them, and over a socket with lengths before.

The raw side has neither TLS nor limits nor negotiation. So the figures are a bound for a transport that lrq lacks.
"""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from queue import SimpleQueue
from typing import Final

from benchmarks.bench import Bench
from benchmarks.contenders.null_sinks import NullSink
from benchmarks.contenders.workers import Told, Workers
from benchmarks.figures import percentile
from benchmarks.workload import PER_TRANSACTION, Workload
from queues.blocks import EntryRow, encode_entries
from queues.clock import SYSTEM_CLOCK
from queues.wire import replication_pb2 as pb
from sink import RemoteSink, serve
from sink.transport.endpoints import network_endpoint

NAME: Final = "transport"
SETTING: Final = "one frame and its acknowledgement"
_LENGTH: Final = struct.Struct(">I")
_ROUNDS: Final = 10


def measure(bench: Bench) -> None:
    """Exchange frames in short rounds by turns; the CPU is that of the sending process."""
    frames = bench.pick(100, 1_000)
    frame = _frame()
    sinks = Workers()
    sinks.start(_grpc_sink)
    sinks.start(_raw_sink)
    try:
        endpoint, port = sinks.wait_ready()
        with closing(_OverGrpc(endpoint, frame)) as over_grpc, closing(_Raw(port, frame)) as raw:
            for _ in range(bench.runs * _ROUNDS):
                _note(bench, "gRPC", over_grpc.exchange, frames)
                _note(bench, "raw frames", raw.exchange, frames)
    finally:
        sinks.stop()


def _note(bench: Bench, name: str, exchange: Callable[[], None], frames: int) -> None:
    trips = []
    used = time.process_time()
    for _ in range(frames):
        began = SYSTEM_CLOCK.monotonic()
        exchange()
        trips.append(SYSTEM_CLOCK.monotonic() - began)
    used = time.process_time() - used
    microseconds = {"p50_µs": percentile(trips, 0.5) * 1e6, "p5_µs": percentile(trips, 0.05) * 1e6}
    bench.book.add(NAME, SETTING, name, **microseconds, **{"CPU µs at the source": used / frames * 1e6})


def _frame() -> pb.Frame:
    entries = [Workload(PER_TRANSACTION).entry(number) for number in range(PER_TRANSACTION)]
    block = encode_entries([EntryRow(entry.payload, 0, 1) for entry in entries])
    header = pb.TickHeader(branch="b", start_seq=0, end_seq=PER_TRANSACTION, uid=1, mark="id/1", created_us=1)
    group = pb.TickGroup(header=header, block=block, complete=True)
    return pb.Frame(session=pb.SessionId(source="a", sink="b", client="c"), batch=pb.Batch(groups=[group]))


class _OverGrpc:
    """lrq's own transport: gRPC's thread takes the frames, this thread reads the acknowledgements."""

    def __init__(self, endpoint: str, frame: pb.Frame) -> None:
        self._sink = RemoteSink(network_endpoint(endpoint))
        self._frame = frame
        self._next: SimpleQueue[pb.Frame | None] = SimpleQueue()
        self._acks = self._sink.replicate(self._frames())

    def _frames(self) -> Iterator[pb.Frame]:
        while (frame := self._next.get()) is not None:
            yield frame

    def exchange(self) -> None:
        self._next.put(self._frame)
        next(self._acks)

    def close(self) -> None:
        self._next.put(None)
        self._sink.close()


class _Raw:
    """A frame leaves from the thread that has it, which also reads the acknowledgement."""

    def __init__(self, port: int, frame: pb.Frame) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frame = frame

    def exchange(self) -> None:
        _send(self._socket, self._frame.SerializeToString())
        pb.Ack.FromString(_receive(self._socket))

    def close(self) -> None:
        self._socket.close()


def _send(line: socket.socket, message: bytes) -> None:
    line.sendall(_LENGTH.pack(len(message)) + message)


def _receive(line: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(line, _LENGTH.size))
    return _exactly(line, length)


def _exactly(line: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = line.recv(size - len(found))
        if not part:
            raise EOFError("the other side has closed the connection")
        found += part
    return found


def _grpc_sink(told: Told) -> None:
    with serve(NullSink(), ["tcp://127.0.0.1:0"]) as service:
        told.tell(service.endpoints[0])
        told.over(None)


def _raw_sink(told: Told) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        told.tell(server.getsockname()[1])
        line, _ = server.accept()
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                frame = pb.Frame.FromString(_receive(line))
                _send(line, pb.Ack(received=frame.batch.start).SerializeToString())
        except EOFError:
            line.close()
