"""Log entries reach the listener once, in order, in whole transactions, and leave the queue with its changes."""

import pytest
from sqlalchemy import Engine, text

from lr_client.sender import RoutingQueueSenderClient
from queues.database.transactions import reading
from queues.receive import brief_look, consumer_marks, log_blocks
from queues.wire.entry_pb2 import LOG_ENTRY_SYNC
from tests.lr_client.subscriber.applying import Apply, payloads, story, texts
from tests.lr_client.subscriber.arrivals import BRANCH, Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually


def test_entries_are_applied_in_order_and_leave_the_queue(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.tick(*[[payload] for payload in payloads("e", 10)])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == texts("e", 10)


def test_the_envelope_shows_the_origin_of_an_entry(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.tick([b"a"], [b"b", b""])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    entries = [entry for call in listener.calls for entry in call]
    assert [entry.sequence for entry in entries] == [1, 2, 3]
    assert [entry.transaction for entry in entries] == [1, 2, 2]
    assert [entry.opaque_payload for entry in entries] == [b"a", b"b", b""]
    first = entries[0]
    assert (first.type, first.source_id, first.client_name) == (LOG_ENTRY_SYNC, "tokyo", "policy")
    assert (first.branch, first.commit_time_us, list(first.destinations)) == (BRANCH, 1_001, [])


def test_later_entries_are_applied_as_they_arrive(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    follow(listener)
    for n in range(1, 6):
        tokyo.tick([f"e{n}".encode()], gap=n)
        eventually(lambda: tokyo.left == 0)
    assert story(sink) == texts("e", 5)


def test_a_transaction_is_never_split_at_the_limits(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    sizes = [3, 1, 4, 1, 5, 9, 2, 6]
    tokyo.tick(*[payloads(f"t{n}-", size) for n, size in enumerate(sizes)])
    follow(listener, max_batch_entries=4)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == [text for n, size in enumerate(sizes) for text in texts(f"t{n}-", size)]
    assert [len(call) for call in listener.calls] == [4, 4, 1, 5, 9, 2, 6]


def test_the_bytes_of_a_call_are_limited_too(tokyo: Arrivals, listener: Apply, follow: Follow) -> None:
    tokyo.tick(*[[b"x" * 1000] for _ in range(10)], [b"y" * 5000], [b"z"])
    follow(listener, max_batch_bytes=3000)
    eventually(lambda: tokyo.left == 0)
    assert [len(call) for call in listener.calls] == [3, 3, 3, 1, 1, 1]


def test_entries_of_an_incomplete_tick_wait_until_the_tick_is_complete(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.tick([b"before"])
    tokyo.part_of_a_tick([b"one", b"two"])
    follow(listener)
    eventually(lambda: story(sink) == ["before"])
    tokyo.part_of_a_tick([b"three"])
    tokyo.complete_the_tick()
    eventually(lambda: tokyo.left == 0)
    assert [[entry.opaque_payload for entry in call] for call in listener.calls] == [
        [b"before"],
        [b"one", b"two", b"three"],
    ]


def test_a_renewed_subscription_continues_at_its_last_position(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    first = follow(listener)
    tokyo.tick([b"e1"])
    eventually(lambda: tokyo.left == 0)
    first.close()
    tokyo.tick([b"e2"])
    again = Apply()
    follow(again)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2"]
    assert [len(call) for call in again.calls] == [1]


def test_a_closed_subscription_applies_no_entry(sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow) -> None:
    subscription = follow(listener)
    tokyo.tick([b"e1"])
    eventually(lambda: tokyo.left == 0)
    subscription.close()
    subscription.close()
    tokyo.tick([b"e2"])
    assert not subscription.active
    assert tokyo.left == 1


def test_a_listener_may_close_its_own_subscription(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    listener = Apply(lambda _: subscription.close())
    tokyo.tick([b"e1"])
    subscription = follow(listener, max_batch_entries=1)
    eventually(lambda: subscription.reason.endswith("stopped"))
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1"]


def test_entries_that_a_listener_transmits_belong_to_its_transaction(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    class Relay(Apply):
        def process_updates_in_log_entry_sync(self, session, source_id, entries):
            client = RoutingQueueSenderClient("relay")
            for entry in entries:
                client.transmit_log_entry_message(session, entry.opaque_payload, ["paris"])
            super().process_updates_in_log_entry_sync(session, source_id, entries)
            return len(self.calls) > 2

    tokyo.tick([b"e1", b"e2"])
    follow(Relay())
    eventually(lambda: tokyo.left == 0)
    with reading(sink) as connection:
        sent = connection.execute(text("SELECT payload FROM lrq_log_entries_0 ORDER BY id")).scalars().all()
    assert [bytes(payload) for payload in sent] == [b"e1", b"e2"]


def test_reading_the_queue_needs_no_scan_of_its_table(sink: Engine, tokyo: Arrivals) -> None:
    for _ in range(300):
        tokyo.tick(*[[b"x"] for _ in range(10)])
    with reading(sink) as connection:
        if connection.dialect.name == "postgresql":
            # PostgreSQL scans a table of some pages in any case, once autovacuum has counted them.
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        values = {"queue": tokyo.queue_id(connection), "after": 500, "upto": 3000, "known": 500}
        explain = "EXPLAIN QUERY PLAN " if connection.dialect.name == "sqlite" else "EXPLAIN "
        for statement in (log_blocks.NEXT, consumer_marks.QUEUE_STATE, brief_look.BLOCKS, brief_look.LAST):
            given = {name: value for name, value in values.items() if name in statement.compile().params}
            literal = statement.params(given).compile(connection, compile_kwargs={"literal_binds": True})
            plan = str(connection.exec_driver_sql(explain + str(literal)).all())
            assert "SCAN lrq_receive_blocks" not in plan
            assert "Seq Scan on lrq_receive_blocks" not in plan


@pytest.mark.parametrize("count", [1, 3000])
def test_a_large_backlog_takes_several_calls(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow, count: int
) -> None:
    tokyo.tick(*[[payload] for payload in payloads("e", count)])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == texts("e", count)
    assert len(listener.calls) == -(-count // 1000)
