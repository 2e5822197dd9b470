"""A locked database is not a refusal by the listener."""

import sqlite3
import threading
from contextlib import closing

import pytest
from sqlalchemy import Engine, create_engine

from discovery import registry
from lr_client.subscriber.followed_queue import FollowedQueue, Options
from lr_client.subscriber.follower import Follower
from lr_client.subscriber.sleepers import sleepers_of
from lr_client.subscriber.unpacker import Unpacker
from queues.clock import SYSTEM_CLOCK
from queues.database import leases
from queues.database.transactions import reading
from queues.errors import StoreUnavailableError
from queues.receive import consumer_marks
from queues.receive.batches import BatchLimits
from queues.receive.parked import parked
from tests.lr_client.subscriber.applying import Apply, story
from tests.lr_client.subscriber.arrivals import Arrivals

ONE_TRY = Options(BatchLimits(100, 1 << 20), "park", max_tries=1, backoff=0.01, max_backoff=0.01, idle=0.01)


def test_entries_at_a_locked_database_are_retried_and_not_parked(sink: Engine, tokyo: Arrivals, dialect: str) -> None:
    if dialect != "sqlite":
        pytest.skip("only SQLite locks the whole database")
    tokyo.tick([b"e1"])
    with reading(sink) as connection:
        [queue] = registry.find(connection, tokyo.client)
    consumer_marks.enroll(sink, queue.queue_id)
    lease = leases.acquire(sink, "subscriber/policy", "me", ttl=60)
    impatient = create_engine(sink.url, connect_args={"timeout": 0.01})
    other = sqlite3.connect(sink.url.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    stopping = threading.Event()
    errors: list[Exception] = []

    def unlock(_source: str, error: Exception) -> None:
        errors.append(error)
        other.close()

    listener = Apply(lambda _: stopping.set())
    with closing(sleepers_of(impatient).sleeper(queue.queue_id, SYSTEM_CLOCK)) as sleeper:
        followed = FollowedQueue(
            engine=impatient, listener=listener, queue=queue, lease=lease, options=ONE_TRY,
            stopping=stopping, report=unlock, sleeper=sleeper, unpacker=Unpacker(), clock=SYSTEM_CLOCK,
        )  # fmt: skip
        Follower(followed).run()
    impatient.dispose()
    assert [type(error) for error in errors] == [StoreUnavailableError]
    assert story(sink) == ["e1"]
    assert parked(sink) == []
