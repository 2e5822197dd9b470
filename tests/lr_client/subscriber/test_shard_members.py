"""The processes that share the shards of a client: each shard has a living one."""

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import Engine, create_engine, text

from lr_client.subscriber.shard_owners import is_sharded
from lr_client.subscriber.sharding import set_shards
from queues.clock import SystemClock
from queues.database.transactions import reading, writing
from queues.errors import StoreUnavailableError
from queues.names import ClientName
from queues.receive import shard_marks, shard_members
from tests.lr_client.subscriber.applying import Apply, story
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually

POLICY = ClientName("policy")


def is_sharded_now(engine: Engine) -> bool:
    """Return whether a queue of the client has its shards."""
    with reading(engine) as connection:
        return shard_marks.most_shards(connection, POLICY) > 1


class SlowClock(SystemClock):
    """Each look at the clock comes ten seconds later."""

    def __init__(self) -> None:
        self._late = 0.0

    def monotonic(self) -> float:
        self._late += 10.0
        return super().monotonic() + self._late


def test_a_clock_that_jumps_back_does_not_keep_the_shards_of_a_process_that_renews_no_more(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    set_shards(sink, "policy", 2)
    with writing(sink) as connection:
        shard_members.join(connection, POLICY, "elsewhere", 3600)
    tokyo.keyed(*[[(str(n), f"e{n}".encode())] for n in range(16)])
    follow(Apply(), lease_ttl=0.3, clock=SlowClock())
    eventually(lambda: tokyo.left == 0)
    assert sorted(story(sink)) == sorted(f"e{n}" for n in range(16))


def test_a_shard_passes_the_entries_of_shards_elsewhere_without_rests(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    set_shards(sink, "policy", 2, partitioner="key")
    with writing(sink) as connection:
        shard_members.join(connection, POLICY, "~ the last one, with shard 1", 3600)
    tokyo.keyed(*[[("1", b"of shard 1")]] * 8000)
    tokyo.keyed([("0", b"own")])
    # With rests, the 500 steps past those entries take 100 seconds.
    follow(Apply(), max_batch_entries=1, poll_interval=1)
    eventually(lambda: story(sink) == ["own"], timeout=60)


@pytest.mark.parametrize("name", ["lrq-shards-policy", "lrq-owner-subscriber/policy/1", "lrq-owner-subscriber/policy"])
def test_a_thread_that_cannot_begin_is_tried_again(
    sink: Engine, tokyo: Arrivals, follow: Follow, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    subscription = follow(Apply())
    eventually(lambda: subscription.active)
    begin: Callable[[threading.Thread], None] = threading.Thread.start
    refused: list[str] = []

    def start(thread: threading.Thread) -> None:
        if thread.name == name and not refused:
            refused.append(name)
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    set_shards(sink, "policy", 2)
    tokyo.keyed(*[[(str(n), f"e{n}".encode())] for n in range(16)])
    eventually(lambda: tokyo.left == 0 and is_sharded_now(sink))
    set_shards(sink, "policy", 1)
    eventually(lambda: not is_sharded(sink, POLICY))
    tokyo.keyed([("a", b"last")])
    eventually(lambda: story(sink)[-1] == "last")
    assert refused == [name]


def test_a_subscription_whose_shards_cannot_be_stored_does_not_begin_without_them(
    sink: Engine, dialect: str, follow: Follow
) -> None:
    options = {"timeout": 0.2} if dialect == "sqlite" else {"options": "-c lock_timeout=200"}
    impatient = create_engine(sink.url, connect_args=options)
    with writing(sink) as connection:
        if dialect == "postgresql":
            connection.execute(text("LOCK TABLE lrq_shard_maps IN SHARE MODE"))
        with pytest.raises(StoreUnavailableError):
            follow(Apply(), engine=impatient, shards=2)
    impatient.dispose()
    follow(Apply(), shards=2)
    assert is_sharded(sink, POLICY)
