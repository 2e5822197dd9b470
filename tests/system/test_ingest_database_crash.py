"""PostgreSQL ends at once while requests of producers wait for their tick: none that is lost is answered as stored."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from signal import SIGQUIT, SIGSTOP

import grpc
import pytest
from sqlalchemy import Engine, text

from lr_client import RoutingQueueSenderClient
from lr_server import LogReplicationServer
from lr_server.settings import Settings
from queues.wire import ingest_pb2 as pb
from tests.clusters import Cluster, cluster, site_of
from tests.system.raw_producer import RawProducer, request
from tests.system.test_ingest import stored
from tests.waiting import eventually

#: The requests of one round; the first one of all is answered before.
EACH, ROUNDS = 5, 5


@pytest.fixture
def database() -> Iterator[Cluster]:
    with cluster(wal_writer_delay="10s", autovacuum="off") as made:
        yield made


@pytest.fixture
def site(database: Cluster) -> Iterator[Engine]:
    made = site_of(database, "paris")
    yield made
    made.dispose()


@pytest.fixture
def server(site: Engine, database: Cluster, tmp_path: Path) -> Iterator[LogReplicationServer]:
    settings = Settings(
        site_id="paris", database_url=database.url(), listen=[f"ipc://{tmp_path}/s"], ingest=True,
        producers={"*": {}}, lease_seconds=60,
    )  # fmt: skip
    with LogReplicationServer(settings) as made:
        yield made


def last_number(site: Engine) -> int:
    with site.connect() as connection:
        return int(connection.execute(text("SELECT coalesce(max(sequence), 0) FROM lrq_producers")).scalar_one())


def crash_before_the_tick(database: Cluster, site: Engine, upto: int) -> None:
    """End the database once the request *upto* is stored and in memory only."""
    with site.connect() as connection:
        writer = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
        os.kill(connection.execute(text(writer)).scalar_one(), SIGSTOP)
    eventually(lambda: last_number(site) == upto)
    database.signal(SIGQUIT)
    site.dispose()
    eventually(lambda: not (database.folder / "postmaster.pid").exists(), timeout=60)
    database.start()


def transmit_often(site: Engine) -> None:
    """Write entries in transactions that take the ids of lost ones."""
    sender = RoutingQueueSenderClient("other")
    for number in range(20):
        with site.begin() as connection:
            sender.transmit_log_entry_message(connection, b"other %d" % number, ["tokyo"])


def answers(producer: RawProducer, first: int, heard: list[pb.ProduceReply]) -> None:
    asked = [request(number, b"%d" % number) for number in range(first, first + EACH)]
    with suppress(grpc.RpcError):
        heard.extend(producer.stream(iter(asked), timeout=120))


def repeated(producer: RawProducer, asked: list[pb.ProduceRequest]) -> list[pb.ProduceReply]:
    """Send until the outcome is known: a connection of the server may end with the database in its next commit."""

    def sent() -> list[pb.ProduceReply]:
        with suppress(grpc.RpcError):
            return producer.send(asked)
        return []

    return eventually(sent)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_requests_that_a_crash_of_the_database_has_lost_are_not_answered_and_are_stored_once_when_repeated(
    database: Cluster, site: Engine, server: LogReplicationServer
) -> None:
    known = 0
    with RawProducer(server.endpoints[0]) as producer:
        for _ in range(ROUNDS):
            heard: list[pb.ProduceReply] = []
            holder = site.connect()
            holder.execute(text("LOCK TABLE lrq_ticks IN EXCLUSIVE MODE"))
            waiting = threading.Thread(target=answers, args=(producer, known + 1, heard))
            waiting.start()
            crash_before_the_tick(database, site, known + EACH)
            holder.invalidate()
            holder.close()
            kept = last_number(site)
            transmit_often(site)
            waiting.join()
            assert [reply.sequence for reply in heard if not reply.HasField("refusal")] == [*range(known + 1, kept + 1)]
            known = kept
            if len(heard) < EACH:
                break
        else:
            pytest.fail("each crash came after the requests had reached the disk")
        again = repeated(producer, [request(number, b"%d" % number) for number in range(known + 1, known + 3)])
    assert [reply.sequence for reply in again] == [known + 1, known + 2]
    mine = [payloads for payloads in stored(server) if not payloads[0].startswith(b"other")]
    assert mine == [[b"%d" % number] for number in range(1, known + 3)]
