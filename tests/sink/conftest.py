"""A sink behind each of its transports, and the contents of its database."""

import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import pytest
import trustme
from sqlalchemy import Connection, Engine, delete, event, insert, make_url, select, text

import queues
from queues.blocks import decode_snapshot
from queues.database.tables.consumers import consumers
from queues.database.tables.receive import (
    receive_blocks,
    receive_branches,
    receive_headers,
    receive_marks,
    receive_queues,
    receive_snapshot_blocks,
)
from queues.database.tables.servers import leases
from queues.names import site_id
from queues.wire import replication_pb2 as pb
from sink import RemoteSink, Sink, SinkWriter, serve
from sink.local_sink import LocalSink
from sink.transport.endpoints import network_endpoint
from sink.transport.loop_sink import LoopSink
from tests.attached import attached
from tests.certificates import issued
from tests.received import received_rows
from tests.sink.exchanged import Exchanged
from tests.sink.frames import request

SINK_TABLES = (
    receive_branches,
    receive_queues,
    receive_marks,
    receive_headers,
    receive_blocks,
    receive_snapshot_blocks,
    consumers,
    leases,
)


def staged_rows(connection: Connection) -> list[tuple[str, int, bytes]]:
    """Return the rows of all snapshots as (sync_id, number, payload), in order; rows may be missing in between."""
    table = receive_snapshot_blocks.c
    found = connection.execute(
        select(table.sync_id, table.last_row, table.block).order_by(table.sync_id, table.last_row)
    )
    return [
        (sync_id, last_row - block.rows + number, payload)
        for sync_id, last_row, packed in found
        for block in [pb.Block.FromString(packed)]
        for number, payload in enumerate(decode_snapshot(block, block.plain_size).payloads, start=1)
    ]


@pytest.fixture(params=["in-process", "local", "ipc", "tcp", "tls", "loop", "attached"])
def transport(request: pytest.FixtureRequest) -> str:
    """Each way from the source to the sink; `local` is in-process, and `loop` TLS, with streams that rest.

    With `attached` the sink opens the connection, by TLS.
    """
    return str(request.param)


@pytest.fixture(scope="session")
def tokyo(request: pytest.FixtureRequest, database_folder: Path) -> Iterator[Callable[[str], Engine]]:
    """Give the only database of site `tokyo` for each dialect: making a database takes longer than most tests."""
    made: dict[str, Engine] = {}

    def database(dialect: str) -> str:
        if dialect == "sqlite":
            return f"sqlite:///{database_folder / 'tokyo.db'}"
        server = make_url(request.getfixturevalue("postgres_server"))
        admin = queues.create_engine(server, isolation_level="AUTOCOMMIT")
        name = f"tokyo_{uuid.uuid4().hex}"
        with admin.connect() as connection:
            connection.execute(text(f'CREATE DATABASE "{name}"'))
        admin.dispose()
        return server.set(database=name).render_as_string(hide_password=False)

    def engine_of(dialect: str) -> Engine:
        if dialect not in made:
            made[dialect] = queues.create_engine(database(dialect))
            queues.initialize(made[dialect], site_id="tokyo")
        return made[dialect]

    yield engine_of
    for engine in made.values():
        engine.dispose()


def wipe(engine: Engine) -> None:
    """Empty all tables of the sink."""
    with engine.begin() as connection:
        for table in SINK_TABLES:
            connection.execute(delete(table))


@pytest.fixture
def engine(tokyo: Callable[[str], Engine], dialect: str) -> Iterator[Engine]:
    """The empty database of site `tokyo`, the sink."""
    engine = tokyo(dialect)
    yield engine
    wipe(engine)


class NumberedSink:
    """Tells in each frame the number that the session's last negotiation here gave, as a source does.

    Over the network frames tell the number; in process they tell none, as those of an older source.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._numbers: dict[tuple[str, str], int] = {}

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        answer = self._sink.negotiate(request)
        if not answer.HasField("refusal"):
            self._numbers[request.session.source, request.session.client] = answer.stream
        return answer

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        numbers = dict(self._numbers)
        return self._sink.replicate(told(frame, numbers) for frame in frames)

    def close(self) -> None:
        self._sink.close()


def told(frame: pb.Frame, numbers: Mapping[tuple[str, str], int]) -> pb.Frame:
    """Return a copy of *frame* with the number of its session."""
    copy = pb.Frame()
    copy.CopyFrom(frame)
    copy.session.stream = numbers.get((frame.session.source, frame.session.client), 0)
    return copy


@pytest.fixture
def connect(transport: str) -> Iterator[Callable[[SinkWriter], Sink]]:
    """Give a function that connects to a writer through the transport."""
    with ExitStack() as closing:
        folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="lrq-"))

        def reach(writer: SinkWriter) -> Sink:
            if transport == "in-process":
                return writer
            workers = closing.enter_context(ThreadPoolExecutor(2))
            if transport == "local":
                return Exchanged(LocalSink(writer, workers))
            if transport == "attached":
                return NumberedSink(closing.enter_context(attached(writer, Path(folder))))
            scheme = "tls" if transport == "loop" else transport
            listen = f"ipc://{Path(folder) / 'sink.sock'}" if transport == "ipc" else f"{scheme}://127.0.0.1:0"
            credentials = issued(trustme.CA(), Path(folder)) if scheme == "tls" else None
            service = closing.enter_context(serve(writer, [listen], credentials=credentials))
            endpoint = network_endpoint(service.endpoints[0])
            sink: Sink
            if transport == "loop":
                sink = Exchanged(LoopSink(endpoint, workers, credentials=credentials))
            else:
                sink = RemoteSink(endpoint, credentials=credentials)
            closing.callback(sink.close)
            return NumberedSink(sink)

        yield reach


@pytest.fixture
def sink(engine: Engine, connect: Callable[[SinkWriter], Sink]) -> Sink:
    """The sink of site `tokyo`."""
    return connect(SinkWriter(engine, site_id("tokyo")))


def talk(sink: Sink, *frames: pb.Frame) -> list[pb.Ack]:
    """Negotiate for the session of the first frame, then send all frames in one stream."""
    answer = sink.negotiate(request(frames[0].session))
    assert not answer.HasField("refusal"), answer.refusal
    return list(sink.replicate(iter(frames)))


def accepted(acks: list[pb.Ack]) -> pb.Ack:
    """Return the last answer; fail if any answer is a refusal."""
    refusals = [ack.refusal for ack in acks if ack.HasField("refusal")]
    assert not refusals, refusals
    return acks[-1]


def refused(acks: list[pb.Ack]) -> pb.Refusal:
    """Return the refusal that ended the stream."""
    assert acks, "the stream ended without an answer"
    assert acks[-1].HasField("refusal"), acks[-1]
    return acks[-1].refusal


class Conversation:
    """One stream, frame by frame, for a session that has negotiated."""

    def __init__(self, sink: Sink) -> None:
        self._frames: SimpleQueue[pb.Frame | None] = SimpleQueue()
        self._acks = sink.replicate(iter(self._frames.get, None))

    def say(self, frame: pb.Frame) -> pb.Ack:
        self._frames.put(frame)
        return self.listen()

    def listen(self) -> pb.Ack:
        return next(self._acks)

    def hang_up(self) -> None:
        self._acks.close()
        self._frames.put(None)


@dataclass(frozen=True)
class Contents:
    """The contents of a sink's database, for the only receive queue of a test."""

    engine: Engine

    def log(self):
        return [(row.seq, row.payload) for row in self.received()]

    def transactions(self):
        return [(row.seq, row.transaction_seq) for row in self.received()]

    def received(self):
        with self.engine.connect() as connection:
            return received_rows(connection)

    def staged(self):
        with self.engine.connect() as connection:
            return staged_rows(connection)

    def headers(self):
        table = receive_headers
        return self._rows(select(table.c.branch, table.c.seq, table.c.uid, table.c.mark).order_by(table.c.seq))

    def queues(self):
        return self._rows(select(receive_queues.c.name, receive_queues.c.tag).order_by(receive_queues.c.name))

    def marks(self):
        with self.engine.connect() as connection:
            return connection.execute(select(receive_marks)).one()

    def consume(self, seq, sync_id="", *, undoes=False, size=0):
        """Set the subscriber's position to *seq*; the entries until there count *size* bytes."""
        at = {"version": 0, "generation": 0, "phase": "log", "row_no": 0, "branch": "b1"}
        at |= {"applied_total": 0, "updated_us": 0, "undoes": undoes, "back_seq": -1, "applied_bytes": size}
        with self.engine.begin() as connection:
            queue_id = connection.execute(select(receive_queues.c.queue_id)).scalar_one()
            connection.execute(insert(consumers).values(queue_id=queue_id, sync_id=sync_id, seq=seq, **at))

    def to_undo(self):
        """Return the last entry that the subscriber keeps when it undoes a rollback; -1 if it undoes nothing."""
        with self.engine.connect() as connection:
            return connection.execute(select(consumers.c.back_seq)).scalar_one()

    def _rows(self, statement):
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(statement)]


@pytest.fixture
def contents(engine: Engine) -> Contents:
    """The contents of the sink's database."""
    return Contents(engine)


@pytest.fixture
def impatient(engine: Engine) -> Iterator[Engine]:
    """An engine for the sink's database that waits for locks at most 50 ms."""
    if engine.dialect.name == "postgresql":
        other = queues.create_engine(engine.url.update_query_dict({"options": "-c lock_timeout=50ms"}))
    else:
        other = queues.create_engine(engine.url)

        @event.listens_for(other, "connect")
        def shorten(connection: object, _record: object) -> None:
            connection.execute("PRAGMA busy_timeout = 50")

    yield other
    other.dispose()
