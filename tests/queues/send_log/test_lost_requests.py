"""PostgreSQL ends with stored requests in memory only: a later look tells that they are lost, not durable."""

import os
from collections.abc import Iterator
from signal import SIGSTOP

import pytest
from sqlalchemy import Engine, text

from queues.clock import now_us
from queues.destinations import destination_set
from queues.names import ClientName
from queues.send_log.opening import open_store
from queues.send_log.outbox import NewEntry
from queues.send_log.producers import Last, Place, ProducerKey, Production, has_kept
from tests.clusters import Cluster, cluster, site_of

CLIENT = ClientName("meters")
KEY = ProducerKey(CLIENT, "p")
LOST = Place(is_durable=False, is_lost=True)


@pytest.fixture
def server() -> Iterator[Cluster]:
    with cluster(wal_writer_delay="10s") as made:
        yield made


@pytest.fixture
def site(server: Cluster) -> Iterator[Engine]:
    made = site_of(server, "paris")
    with made.connect() as connection:
        # The process that writes asynchronous commits to the disk stands still.
        writer = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
        os.kill(connection.execute(text(writer)).scalar_one(), SIGSTOP)
    yield made
    made.dispose()


def store(site: Engine, sequence: int, payload: bytes, process: int = 7) -> Last:
    opened = open_store(site)
    entry = NewEntry(payload, destination_set(CLIENT, ["tokyo"]), None, None, None)
    (outcome,) = opened.store([Production(KEY, sequence, [entry], process, 1)], now_us())
    opened.close()
    return outcome.last


def place(site: Engine, last: Last) -> Place:
    return open_store(site).places([(KEY, last)])[0]


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_request_that_a_crash_has_lost_is_not_durable_also_once_its_number_is_stored_again(
    server: Cluster, site: Engine
) -> None:
    last = store(site, 1, b"lost")
    assert place(site, last) == Place(is_durable=False)
    server.kill()
    site.dispose()
    server.start()
    assert place(site, last) == LOST
    again = store(site, 1, b"again", process=8)
    assert place(site, last) == LOST
    assert place(site, again) == Place(is_durable=False)


@pytest.mark.parametrize(
    ("now", "is_kept"),
    [
        (Last(5, "t", 7, 2), True),
        (Last(6, "u", 7, 2), True),
        (Last(4, "s", 7, 2), False),
        (Last(5, "u", 7, 2), False),
        (Last(5, "t", 7, 2, 1), False),
        (Last(6, "u", 8, 6), False),
        (Last(0, ""), False),
    ],
)
def test_a_database_has_kept_a_request_only_if_its_process_has_gone_on_from_there(now: Last, *, is_kept: bool) -> None:
    assert has_kept(now, Last(5, "t", 7, 2)) is is_kept
