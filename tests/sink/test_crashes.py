"""A database keeps acknowledged entries in a crash, though its commits do not wait for the disk by default."""

import random
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, select, text

from queues.database.tables.receive import receive_marks
from queues.names import site_id
from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from tests.clusters import Cluster, cluster, site_of
from tests.faults.database_crashes import CrashingDatabase, crash_often
from tests.sink.conftest import accepted, talk
from tests.sink.frames import batch, request, tick
from tests.waiting import eventually

pytestmark = pytest.mark.postgresql


@pytest.fixture
def database() -> Iterator[CrashingDatabase]:
    with tempfile.TemporaryDirectory(prefix="lrq-crash-") as folder:
        made = CrashingDatabase(Path(folder))
        yield made
        made.stop()


def frames(seq: int) -> Iterator[pb.Frame]:
    while True:
        yield batch(seq, tick(seq, seq + 1, [b"x"]))
        seq += 1


def received(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(select(receive_marks.c.seq)).scalar_one())


def test_acknowledged_entries_survive_a_crash(database: CrashingDatabase):
    sink = SinkWriter(database.engine, site_id("tokyo"))
    accepted(talk(sink, next(frames(0))))
    begun = sink.negotiate(request()).received.seq
    acks = (ack.received.seq for ack in sink.replicate(frames(begun)))
    acknowledged = next(seq for seq in acks if seq == begun + 20)
    database.crash()
    assert received(database.engine) == acknowledged


@pytest.mark.long
@pytest.mark.timeout(240)
def test_no_acknowledged_entry_is_lost_by_crashes_at_random_moments(database: CrashingDatabase, chance: random.Random):
    crash_often(database, chance, 4)


@pytest.mark.long
@pytest.mark.timeout(240)
def test_entries_are_visible_before_a_standby_has_them_but_acknowledged_only_afterwards():
    with cluster() as servers:
        engine = site_of(servers, "tokyo")
        try:
            _check_that_a_standby_delays_the_acknowledgement(servers, engine)
        finally:
            engine.dispose()


def _waiting(engine: Engine) -> int:
    """Return the number of commits that wait for a standby; each transaction looks once only."""
    with engine.connect() as connection:
        waits = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        return int(connection.execute(waits).scalar_one())


def _commit_until(engine: Engine, is_over: threading.Event) -> None:
    """Commit again and again; a commit that waits for a standby is the last one until then."""
    with engine.connect() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS committed (number integer)"))
        while not is_over.is_set():
            connection.execute(text("INSERT INTO committed VALUES (1)"))
            connection.commit()


def _check_that_a_standby_delays_the_acknowledgement(servers: Cluster, engine: Engine) -> None:
    sink = SinkWriter(engine, site_id("tokyo"))
    accepted(talk(sink, next(frames(0))))
    begun = sink.negotiate(request()).received.seq
    acknowledged: list[int] = []
    may_send = threading.Event()

    def source() -> Iterator[pb.Frame]:
        pairs = frames(begun)
        yield next(pairs)  # a stream's first frame locks the marks; the later ones replace them at once
        yield next(pairs)
        may_send.wait()
        yield next(pairs)

    def run() -> None:
        acknowledged.extend(ack.received.seq for ack in sink.replicate(source()))

    sender = threading.Thread(target=run)
    sender.start()
    eventually(lambda: received(engine) == begun + 2)
    servers.reload(synchronous_standby_names="missing")
    is_over = threading.Event()
    committer = threading.Thread(target=_commit_until, args=(engine, is_over))
    with engine.connect() as connection:
        eventually(lambda: _setting(connection) == "missing")
    # PostgreSQL's checkpointer switches the waits on, a moment later.
    committer.start()
    eventually(lambda: _waiting(engine) == 1)
    may_send.set()
    eventually(lambda: received(engine) == begun + 3)
    eventually(lambda: _waiting(engine) == 2)
    assert begun + 3 not in acknowledged
    is_over.set()
    servers.reload(synchronous_standby_names="")
    sender.join()
    committer.join()
    assert acknowledged == [begun + 1, begun + 2, begun + 3]


def _setting(connection: Connection) -> str:
    return str(connection.execute(text("SHOW synchronous_standby_names")).scalar_one())
