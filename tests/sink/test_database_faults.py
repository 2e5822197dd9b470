"""A sink whose database fails, and several writers of one queue."""

import random
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, event, text

import queues
from queues.names import site_id
from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from tests.sink.conftest import Contents, accepted, refused, talk, wipe
from tests.sink.frames import FIRST, batch, begin, chunk, end, numbered, request, session, tick


def writer(engine: Engine) -> SinkWriter:
    return SinkWriter(engine, site_id("tokyo"))


@pytest.fixture
def postgres(tokyo) -> Iterator[Engine]:
    """The sink's database, on PostgreSQL only."""
    engine = tokyo("postgresql")
    yield engine
    wipe(engine)


def test_a_full_disk_gives_a_transient_refusal_and_stores_nothing_of_the_frame(tmp_path):
    engine = queues.create_engine(f"sqlite:///{tmp_path / 'full.db'}")
    queues.initialize(engine, site_id="tokyo")
    engine.dispose()

    @event.listens_for(engine, "connect")
    def fill(connection, _record):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 5}")

    refusal = refused(talk(writer(engine), FIRST, batch(3, tick(3, 4, [random.Random(1).randbytes(200_000)]))))
    assert refusal.kind == pb.Refusal.TRANSIENT
    assert refusal.reason.startswith("the sink's database: ")
    assert "full" in refusal.reason
    assert Contents(engine).log() == list(enumerate(numbered(1, 3), start=1))
    engine.dispose()


def test_a_database_without_tables_gives_a_refusal_that_names_the_command(tmp_path):
    engine = queues.create_engine(f"sqlite:///{tmp_path / 'empty.db'}")
    refusal = writer(engine).negotiate(request()).refusal
    assert refusal.kind == pb.Refusal.TRANSIENT
    assert "lrq init" in refusal.reason
    engine.dispose()


@pytest.mark.postgresql
def test_a_database_that_breaks_the_connection_is_used_again_when_it_is_back(postgres):
    sink = writer(postgres)
    accepted(talk(sink, FIRST))
    sink.negotiate(request())
    kill = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    other = queues.create_engine(postgres.url)
    with other.connect() as connection:
        connection.execute(kill)
    other.dispose()
    assert refused(list(sink.replicate(iter([FIRST])))).kind == pb.Refusal.TRANSIENT
    accepted(talk(sink, FIRST, batch(3, tick(3, 4, [b"x"]))))
    assert len(Contents(postgres).log()) == 4


@pytest.mark.parametrize("frames", ["log", "snapshot"])
def test_simultaneous_writers_of_one_queue_store_each_row_once(engine, contents, frames):
    accepted(talk(writer(engine), batch(0, tick(0, 1, numbered(1, 1))), begin("s1")))
    payloads = numbered(1, 40)
    if frames == "log":
        sent = [batch(0, *(tick(n - 1, n, [payloads[n - 1]]) for n in range(1, upto + 1))) for upto in range(1, 41)]
    else:
        sent = [chunk("s1", 1, payloads[:upto]) for upto in range(1, 41)]
    start = threading.Barrier(3)
    kinds = set()

    def send():
        sink = writer(engine)
        start.wait()
        while (stored := stored_rows(sink.negotiate(request()))) < len(payloads):
            # Each negotiation ends the streams of the others.
            acks = list(sink.replicate(iter(sent[stored:])))
            kinds.update(ack.refusal.kind for ack in acks if ack.HasField("refusal"))

    def stored_rows(answer):
        return answer.received.seq if frames == "log" else answer.staging.rows

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kinds <= {pb.Refusal.NO_STREAM_BEGIN, pb.Refusal.TRANSIENT}
    if frames == "log":
        assert contents.log() == list(enumerate(payloads, start=1))
    else:
        accepted(talk(writer(engine), end("s1", payloads)))
        assert contents.staged() == [("s1", n, payload) for n, payload in enumerate(payloads, start=1)]


def test_simultaneous_writers_announce_a_new_queue_once(engine, contents):
    start = threading.Barrier(4)
    answers = []

    def send(number):
        sink = writer(engine)
        by = session(source=f"site{number // 2}")
        sink.negotiate(request(by))
        start.wait()
        answers.extend(sink.replicate(iter([batch(0, tick(0, 3, numbered(1, 3)), by=by)])))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    kinds = {answer.refusal.kind for answer in answers if answer.HasField("refusal")}
    assert kinds <= {pb.Refusal.TRANSIENT, pb.Refusal.NO_STREAM_BEGIN}
    assert [name for name, _ in contents.queues()] == ["LRQ_Recv_policy_site0", "LRQ_Recv_policy_site1"]
    assert len(contents.log()) == 6
