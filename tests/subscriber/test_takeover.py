"""Two subscribers of one client: one works, the other stands by, and a stale one is refused."""

import threading

import pytest
from sqlalchemy import Engine, update

from discovery import registry
from lr_client.delivery import Delivery, Superseded
from lr_client.steps import next_step
from lr_client.subscriber import lease_name
from queues import leases, tables
from queues.errors import OwnershipLostError
from queues.leases import Lease
from queues.receive import consuming
from queues.receive.upcoming import Limits
from queues.transactions import reading, writing
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.subscriber.applying import Apply, payloads, story, texts
from tests.subscriber.arrivals import Arrivals
from tests.subscriber.conftest import Follow
from tests.waiting import eventually

LIMITS = Limits(entries=100, bytes=1 << 20)


def expire(engine: Engine) -> None:
    """What time does when a process is stopped."""
    with writing(engine) as connection:
        connection.execute(update(tables.leases).values(expires_us=0))


def test_one_works_and_the_other_stands_by_until_it_is_closed(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
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


def test_a_subscriber_that_was_replaced_stops_and_tells_why(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
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


def test_two_that_both_think_they_own_it_apply_everything_once(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
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
    """Return the delivery of an owner and that of its successor, for the one queue there is."""
    with reading(sink) as connection:
        [queue] = registry.find(connection, listener.client_name)
    consuming.enroll(sink, queue.queue_id)
    old, new = (_acquire(sink, owner) for owner in ("old", "new"))
    return Delivery(sink, listener, queue, old), Delivery(sink, listener, queue, new)


def _acquire(sink: Engine, owner: str) -> Lease:
    lease = leases.acquire(sink, lease_name("policy"), owner, ttl=0)
    assert lease is not None
    return lease


def test_a_stale_subscriber_is_refused_inside_its_transaction(sink: Engine, tokyo: Arrivals, listener: Apply) -> None:
    tokyo.tick([b"e1"])
    stale, _ = deliveries(sink, listener)
    with reading(sink) as connection:
        step = next_step(connection, tokyo.queue_id(connection), LIMITS, one=False)
    with pytest.raises(OwnershipLostError):
        stale.carry_out(step)
    assert (listener.calls, tokyo.left) == ([], 1)


def test_a_step_that_someone_else_has_made_is_not_made_again(sink: Engine, tokyo: Arrivals, listener: Apply) -> None:
    tokyo.tick([b"e1"])
    _, current = deliveries(sink, listener)
    with reading(sink) as connection:
        step = next_step(connection, tokyo.queue_id(connection), LIMITS, one=False)
    current.carry_out(step)
    with pytest.raises(Superseded):
        current.carry_out(step)
    assert story(sink) == ["e1"]


@pytest.mark.parametrize("lost", [[], [b"e2"]], ids=["a tick of others", "an entry"])
def test_a_position_that_the_sink_has_gone_back_from_is_not_reached(
    sink: Engine, tokyo: Arrivals, listener: Apply, lost: list[bytes]
) -> None:
    kept = tokyo.tick([b"e1"])
    tokyo.tick(*[[payload] for payload in lost], gap=5)
    _, current = deliveries(sink, listener)
    with reading(sink) as connection:
        step = next_step(connection, tokyo.queue_id(connection), LIMITS, one=False)
    tokyo.go_back(kept)
    with pytest.raises(Superseded):
        current.carry_out(step)
    tokyo.tick([b"other"])
    assert tokyo.left == 2
    for _ in range(2):
        with reading(sink) as connection:
            step = next_step(connection, tokyo.queue_id(connection), LIMITS, one=True)
        current.carry_out(step)
    assert story(sink) == ["e1", "other"]


def test_a_takeover_while_the_listener_works_undoes_what_it_did(
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
