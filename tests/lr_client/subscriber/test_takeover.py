"""Two subscribers of one client: one works, the other stands by, and a stale one is refused."""

import threading

import pytest
from sqlalchemy import Engine, delete, update

from discovery import registry
from lr_client.subscriber.delivery import Delivery, Superseded
from lr_client.subscriber.steps import next_step
from queues.database import leases, tables
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.errors import OwnershipLostError
from queues.receive import consumer_marks
from queues.receive.batches import BatchLimits
from queues.receive.kept_blocks import KeptBlocks
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.lr_client.subscriber.applying import Apply, payloads, story, texts
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually

LIMITS = BatchLimits(entries=100, bytes=1 << 20)


def expire(engine: Engine) -> None:
    """Let all leases expire, as for a paused process."""
    with writing(engine) as connection:
        connection.execute(update(tables.servers.leases).values(expires_us=0))


def test_a_second_subscriber_stands_by_until_the_first_is_closed(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    first, second = Apply(), Apply()
    working = follow(first)
    eventually(lambda: working.active)
    waiting = follow(second, lease_ttl=0.3)
    eventually(lambda: "standing by" in waiting.reason)
    tokyo.tick([b"e1"])
    eventually(lambda: tokyo.left == 0)
    working.close()
    tokyo.tick([b"e2"])
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2"]
    assert (len(first.calls), len(second.calls)) == (1, 1)


def test_a_replaced_subscriber_stops_and_reports_the_reason(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    stale = Apply()
    old = follow(stale)
    tokyo.tick([b"e1"])
    eventually(lambda: tokyo.left == 0)
    leases.release(sink, leases.holder(sink, "subscriber/policy").lease)
    assert leases.acquire(sink, "subscriber/policy", "another", ttl=60)
    tokyo.tick([b"e2"])
    eventually(lambda: stale.errors)
    [(source, error)] = stale.errors
    assert source == ""
    assert isinstance(error, OwnershipLostError)
    assert not old.active
    assert tokyo.left == 1
    assert story(sink) == ["e1"]


def test_two_subscribers_that_both_believe_to_be_owners_apply_each_entry_once(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    first, second = Apply(), Apply()
    follow(first, max_batch_entries=3)
    eventually(lambda: leases.holder(sink, "subscriber/policy"))
    follow(second, max_batch_entries=3, lease_ttl=0.3)
    for n in range(20):
        tokyo.tick(*[[payload] for payload in payloads(f"t{n}-", 5)])
        expire(sink)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == [text for n in range(20) for text in texts(f"t{n}-", 5)]


def deliveries(sink: Engine, listener: Apply) -> tuple[Delivery, Delivery]:
    """Return the delivery of an owner and the delivery of its successor, for the only queue."""
    with reading(sink) as connection:
        [queue] = registry.find(connection, listener.client_name)
    consumer_marks.enroll(sink, queue.queue_id)
    old, new = (_acquire(sink, owner) for owner in ("old", "new"))
    return Delivery(sink, listener, queue, old), Delivery(sink, listener, queue, new)


def _acquire(sink: Engine, owner: str) -> Lease:
    lease = leases.acquire(sink, "subscriber/policy", owner, ttl=0)
    assert lease is not None
    return lease


def test_a_stale_subscriber_is_refused_inside_its_transaction(sink: Engine, tokyo: Arrivals, listener: Apply) -> None:
    tokyo.tick([b"e1"])
    stale, _ = deliveries(sink, listener)
    with reading(sink) as connection:
        step = next_step(connection, tokyo.queue_id(connection), LIMITS, KeptBlocks(), one=False)
    with pytest.raises(OwnershipLostError):
        stale.carry_out(step)
    assert (listener.calls, tokyo.left) == ([], 1)


def test_a_step_that_another_subscriber_has_made_is_not_repeated(
    sink: Engine, tokyo: Arrivals, listener: Apply
) -> None:
    tokyo.tick([b"e1"])
    _, current = deliveries(sink, listener)
    with reading(sink) as connection:
        step = next_step(connection, tokyo.queue_id(connection), LIMITS, KeptBlocks(), one=False)
    current.carry_out(step)
    with pytest.raises(Superseded):
        current.carry_out(step)
    assert story(sink) == ["e1"]


def test_a_step_whose_blocks_have_gone_is_undone(sink: Engine, tokyo: Arrivals, listener: Apply) -> None:
    tokyo.tick([b"e1"])
    _, current = deliveries(sink, listener)
    with reading(sink) as connection:
        step = next_step(connection, tokyo.queue_id(connection), LIMITS, KeptBlocks(), one=False)
    with writing(sink) as connection:
        connection.execute(delete(tables.receive.receive_blocks))
    with pytest.raises(Superseded):
        current.carry_out(step)
    assert story(sink) == []


@pytest.mark.parametrize("lost", [[], [b"e2"]], ids=["a tick of others", "an entry"])
def test_a_step_to_a_position_behind_a_rollback_is_refused(
    sink: Engine, tokyo: Arrivals, listener: Apply, lost: list[bytes]
) -> None:
    kept = tokyo.tick([b"e1"])
    tokyo.tick(*[[payload] for payload in lost], gap=5)
    _, current = deliveries(sink, listener)
    with reading(sink) as connection:
        step = next_step(connection, tokyo.queue_id(connection), LIMITS, KeptBlocks(), one=False)
    tokyo.go_back(kept)
    with pytest.raises(Superseded):
        current.carry_out(step)
    tokyo.tick([b"other"])
    assert tokyo.left == 2
    for _ in range(2):
        with reading(sink) as connection:
            step = next_step(connection, tokyo.queue_id(connection), LIMITS, KeptBlocks(), one=True)
        current.carry_out(step)
    assert story(sink) == ["e1", "other"]


def test_a_step_is_refused_after_a_rollback_though_other_entries_have_its_numbers(
    sink: Engine, tokyo: Arrivals, listener: Apply
) -> None:
    kept = tokyo.tick([b"e1"])
    tokyo.tick([b"lost2"], [b"lost3"])
    _, current = deliveries(sink, listener)
    with reading(sink) as connection:
        step = next_step(connection, tokyo.queue_id(connection), LIMITS, KeptBlocks(), one=False)
    tokyo.go_back(kept)
    tokyo.tick([b"e2"], [b"e3"])
    with pytest.raises(Superseded):
        current.carry_out(step)
    with reading(sink) as connection:
        current.carry_out(next_step(connection, tokyo.queue_id(connection), LIMITS, KeptBlocks(), one=False))
    assert story(sink) == ["e1", "e2", "e3"]


def test_a_takeover_during_a_call_undoes_the_changes_of_the_call(
    sink: Engine, tokyo: Arrivals, dialect: str, follow: Follow
) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has one writer: the takeover comes before or after, never in the middle")
    inside, taken_over = threading.Event(), threading.Event()

    def linger(_: RoutingTableEntryMsg) -> None:
        inside.set()
        taken_over.wait(20)

    stale, successor = Apply(linger), Apply()
    tokyo.tick([b"e1"], [b"e2"])
    follow(stale)
    eventually(inside.is_set)
    leases.release(sink, leases.holder(sink, "subscriber/policy").lease)
    follow(successor, lease_ttl=0.6)
    eventually(lambda: tokyo.left == 0)
    taken_over.set()
    eventually(lambda: any(isinstance(error, OwnershipLostError) for _, error in stale.errors))
    assert story(sink) == ["e1", "e2"]
    assert len(successor.calls) == 1
