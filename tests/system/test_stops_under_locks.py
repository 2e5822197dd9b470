"""A server that stops while another transaction holds a lock on lrq's tables, as a change of a table does."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from sqlalchemy import text

from lr_server import LogReplicationServer, stop_watch
from tests.system.raw_producer import RawProducer, request
from tests.system.world import World
from tests.threads_refused import AT_ITS_LIMIT, ENDING, no_further_thread
from tests.waiting import eventually

pytestmark = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


@pytest.fixture
def paris(world: World) -> LogReplicationServer:
    return world.server("paris", ingest=True, producers={"*": {}})


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


def said(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if words in record.getMessage()]


def attempt(paris: LogReplicationServer) -> str:
    """Send a request; return the outcome in a word."""
    with RawProducer(paris.endpoints[0]) as producer:
        try:
            (reply,) = producer.send([request(1, b"x")], timeout=120)
        except grpc.RpcError as error:
            return str(error.code().name)
        return "REFUSED" if reply.HasField("refusal") else "STORED"


@pytest.mark.long
@pytest.mark.parametrize("table", ["lrq_producers", "lrq_ticks"])
def test_a_stop_tells_the_lock_that_it_waits_for_and_ends_before_the_lock_does(
    world: World,
    paris: LogReplicationServer,
    pool: ThreadPoolExecutor,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
) -> None:
    monkeypatch.setattr(stop_watch, "TOLD_AFTER", 0.2)
    monkeypatch.setattr(stop_watch, "ENDED_AFTER", 2.0)
    caplog.set_level(logging.WARNING)
    with world.site("paris").begin() as holder:
        holder.execute(text("SET LOCAL application_name = 'a long change'"))
        holder.execute(text(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"))
        outcome = pool.submit(attempt, paris)
        eventually(lambda: waits(world, table))
        pool.submit(paris.stop).result(120)
        assert outcome.result(120) != "STORED"
    (told, *_) = said(caplog, "the stop waits for a lock")
    assert table in told
    assert "a long change" in told
    assert said(caplog, "the stop has ended statements")
    again = world.server("paris", ingest=True, producers={"*": {}})
    assert attempt(again) == "STORED"


@pytest.mark.long
def test_a_stop_ends_no_statement_that_gets_its_lock_in_time(
    world: World,
    paris: LogReplicationServer,
    pool: ThreadPoolExecutor,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stop_watch, "TOLD_AFTER", 0.2)
    monkeypatch.setattr(stop_watch, "ENDED_AFTER", 600.0)
    # The tick that covers the request may be late.
    monkeypatch.setattr("lr_server.ingest.ingest._PATIENCE", 60.0)
    caplog.set_level(logging.WARNING)
    with world.site("paris").begin() as holder:
        holder.execute(text("LOCK TABLE lrq_producers IN ACCESS EXCLUSIVE MODE"))
        outcome = pool.submit(attempt, paris)
        eventually(lambda: waits(world, "lrq_producers"))
        stopped = pool.submit(paris.stop)
        eventually(lambda: said(caplog, "the stop waits for a lock"))
    stopped.result(120)
    assert outcome.result(120) == "STORED"
    assert not said(caplog, "the stop has ended statements")


def waits(world: World, table: str) -> bool:
    """Tell whether a connection of a server waits for a lock on *table*, or one of its partitions."""
    return bool(
        world.execute(
            "paris",
            "SELECT 1 FROM pg_locks WHERE NOT granted AND relation::regclass::text LIKE :table",
            table=f"{table}%",
        )
    )


@pytest.mark.parametrize("words", [AT_ITS_LIMIT, ENDING])
def test_a_stop_without_a_thread_for_its_watch_ends(
    paris: LogReplicationServer, caplog: pytest.LogCaptureFixture, words: str
) -> None:
    with no_further_thread("lrq-stop", words=words):
        paris.stop()
    assert said(caplog, "the stop is not watched")
