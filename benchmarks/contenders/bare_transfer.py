"""The smallest transfer in Python to destinations on other machines.

One process reads new entries and packs them, once for all destinations with the same entries. Over gRPC, one process
per destination receives the blocks, unpacks them and copies their rows. There is no position, no order of commits, no
owner and no second attempt. Entries in flight are lost at the end of a process, and only one client may write.
"""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from queue import Queue
from typing import Any, Final

import grpc
import psycopg
from sqlalchemy import text

from benchmarks.contender import Place
from benchmarks.contenders.carried import Carried
from benchmarks.contenders.tables import SOURCE, Databases
from benchmarks.contenders.workers import Told, Workers
from benchmarks.workload import Entry
from queues.blocks import EntryRow, decode_entries, encode_entries
from queues.database.postgresql.binary_copy import binary_copy
from queues.wire.replication_pb2 import Block

_TABLE: Final = (
    "CREATE TABLE entries"
    " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea NOT NULL, mask bigint NOT NULL)"
)
_INSERT: Final = text("INSERT INTO entries (payload, mask) VALUES (:payload, :mask)")
_NEW: Final = "SELECT id, payload, mask FROM entries WHERE id > %s ORDER BY id LIMIT 2000"
_COPY: Final = "COPY entries (id, payload) FROM STDIN (FORMAT BINARY)"
_METHOD: Final = "/bench.Transfer/Carry"
#: The pause between reads in seconds, about as long as lrq's under load; a shorter pause costs more.
_PAUSE: Final = 0.15
#: The most blocks in flight to one destination.
_AHEAD: Final = 4
_LIMIT: Final = 64 * 1024 * 1024

Row = tuple[int, bytes, int]


class BareTransfer(Carried):
    """One process at the source and one at each destination."""

    name = "bare transfer"

    def __init__(self) -> None:
        """Start no process yet."""
        super().__init__()
        self._sinks = Workers()

    def prepare(self, place: Place, destinations: int) -> None:
        """Start the destinations, then the source."""
        self._databases = databases = Databases(place.cluster, destinations)
        databases.source(_TABLE)
        for sink in databases.sinks:
            self._sinks.start(_store, place.cluster.conninfo(sink))
        self._workers.start(_send, place.cluster.conninfo(SOURCE), self._sinks.wait_ready())
        self._workers.wait_ready()

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Insert the entries, each with its destinations."""
        with self._databases.engine.begin() as connection:
            connection.execute(_INSERT, [{"payload": entry.payload, "mask": entry.mask} for entry in entries])

    def close(self) -> None:
        """Stop the source, then the destinations."""
        self._workers.stop()
        self._sinks.stop()
        self._databases.close()


def _send(told: Told, source: str, ports: Sequence[int]) -> None:
    with ExitStack() as stack:
        there = stack.enter_context(psycopg.connect(source, autocommit=True))
        ways = [_Way(stack, port) for port in ports]
        told.ready()
        last = 0
        while not told.over(_PAUSE):
            while rows := there.execute(_NEW, (last,), binary=True, prepare=True).fetchall():
                last = rows[-1][0]
                _share(ways, rows)


class _Way:
    """The stream to one destination; gRPC takes the blocks in another thread."""

    def __init__(self, stack: ExitStack, port: int) -> None:
        self._blocks: Queue[bytes] = Queue(_AHEAD)
        channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
        call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(_METHOD)
        self._acks = call(iter(self._blocks.get, b""))
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        # The stream ends when its channel is closed; the sender notices a broken stream.
        with suppress(grpc.RpcError):
            for _ in self._acks:
                pass

    def send(self, block: bytes) -> None:
        if not self._acks.is_active():
            raise ConnectionError(f"a destination gave up: {self._acks.details()}")
        self._blocks.put(block)


def _share(ways: Sequence[_Way], rows: Sequence[Row]) -> None:
    packed: dict[tuple[int, ...], bytes] = {}
    for number, way in enumerate(ways):
        owed = tuple(index for index, row in enumerate(rows) if row[2] >> number & 1)
        if owed and owed not in packed:
            chosen = [rows[index] for index in owed]
            packed[owed] = encode_entries([EntryRow(row[1], row[0], 0) for row in chosen]).SerializeToString()
        if owed:
            way.send(packed[owed])


def _store(told: Told, sink: str) -> None:
    with psycopg.connect(sink, autocommit=True) as here:
        here.execute("SET synchronous_commit = off")
        server = grpc.server(ThreadPoolExecutor(2))

        def carry(blocks: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
            for block in blocks:
                _copy(here, Block.FromString(block))
                yield b""

        _, service, method = _METHOD.split("/")
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            method: grpc.stream_stream_rpc_method_handler(carry)
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        told.tell(port)
        told.over(None)
        server.stop(None).wait()


def _copy(sink: psycopg.Connection[Any], block: Block) -> None:
    rows = decode_entries(block, _LIMIT)
    with sink.cursor().copy(_COPY) as copy:
        copy.write(binary_copy(["bigint", "bytea"], [list(rows.transaction_indexes), rows.payloads]))
