"""300 sources behind one address replicate to one sink with default limits; threads and connections stay bounded."""

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from sqlalchemy import Engine, QueuePool, func, select

import queues
from queues.database.tables.receive import receive_blocks, receive_marks
from queues.errors import PeerUnreachableError
from queues.names import site_id
from sink import RemoteSink, SinkWriter, serve
from sink.transport.endpoints import network_endpoint
from tests.sink.conftest import Conversation, NumberedSink, accepted
from tests.sink.frames import batch, numbered, request, session, tick

SOURCES = 300
#: The connections of a server's pool for sessions (`lr_server/connections.py`).
KEPT, MORE = 13, 0


@pytest.fixture
def pooled(engine: Engine) -> Iterator[Engine]:
    """An engine with the pool of a server."""
    made = queues.create_engine(engine.url, pool_size=KEPT, max_overflow=MORE, pool_use_lifo=True)
    yield made
    made.dispose()


def threads_of_the_sink() -> int:
    return sum(thread.name.startswith("lrq-sink") for thread in threading.enumerate())


@pytest.mark.long
@pytest.mark.timeout(300)
def test_all_of_300_sources_are_served_at_the_same_time(engine: Engine, pooled: Engine) -> None:
    failures: list[BaseException] = []
    most_connections = [0]

    def replicate(number: int, endpoint: str, served: threading.Barrier) -> None:
        by = session(source=f"site{number}")
        sink = RemoteSink(network_endpoint(endpoint), negotiation_timeout=60)
        try:
            stream = begun(NumberedSink(sink), by)
            for seq in range(3):
                accepted([stream.say(batch(seq, tick(seq, seq + 1, numbered(seq + 1, seq + 1)), by=by))])
                pool = pooled.pool
                assert isinstance(pool, QueuePool)
                # `checkedin` and `checkedout` would be two looks at different moments.
                most_connections[0] = max(most_connections[0], pool.size() + pool.overflow())
            served.wait(200)
            served.wait(200)
            stream.hang_up()
        except BaseException as error:  # noqa: BLE001 - the test shows the error of each thread
            failures.append(error)
            served.abort()
        finally:
            sink.close()

    def begun(sink: NumberedSink, by: object) -> Conversation:
        # At most 16 calls of one caller wait for their requests at the same moment: a session then tries again.
        while True:
            try:
                answer = sink.negotiate(request(by))
            except PeerUnreachableError as error:
                if "negotiations without a request" not in str(error):
                    raise
                continue
            assert not answer.HasField("refusal"), answer.refusal
            return Conversation(sink)

    with serve(SinkWriter(pooled, site_id("tokyo")), ["tcp://127.0.0.1:0"]) as service:
        served = threading.Barrier(SOURCES + 1)
        threads = [
            threading.Thread(target=replicate, args=(number, service.endpoints[0], served)) for number in range(SOURCES)
        ]
        for thread in threads:
            thread.start()
        with suppress(threading.BrokenBarrierError):
            served.wait(200)
            assert SOURCES <= threads_of_the_sink() <= SOURCES + 49
            served.wait(200)
        for thread in threads:
            thread.join()
    assert failures == []
    assert most_connections[0] <= KEPT + MORE
    with engine.connect() as connection:
        queues_stored = connection.execute(select(func.count()).select_from(receive_marks)).scalar_one()
        rows = connection.execute(select(func.sum(receive_blocks.c.row_count))).scalar_one()
    assert (queues_stored, rows) == (SOURCES, 3 * SOURCES)
