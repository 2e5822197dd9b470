"""A subscriber unpacks the blocks of its queue: transactions over several blocks, blocks over several calls."""

import pytest
from sqlalchemy import Engine, func, select, update

from queues.database.tables.consumers import consumer_failures, consumers
from queues.database.tables.receive import receive_blocks, receive_marks
from queues.receive.parked import parked
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.lr_client.subscriber.applying import Apply, Undo, payloads, story, texts
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually


def blocks(sink: Engine) -> int:
    with sink.connect() as connection:
        return connection.execute(select(func.count()).select_from(receive_blocks)).scalar_one()


def calls(listener: Apply) -> list[int]:
    return [len(call) for call in listener.calls]


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_a_transaction_over_several_blocks_comes_in_one_call(
    sink: Engine, listener: Apply, follow: Follow, rows: int
) -> None:
    tokyo = Arrivals(sink, log_block_rows=rows)
    entries = payloads("e", 12)
    tokyo.tick(entries[:1], entries[1:11], entries[11:])
    follow(listener, max_batch_entries=2)
    eventually(lambda: tokyo.left == 0)
    assert (story(sink), calls(listener), blocks(sink)) == (texts("e", 12), [1, 10, 1], 0)


def test_a_block_larger_than_a_call_is_deleted_with_its_last_entry(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    left = []

    def look(entry: RoutingTableEntryMsg) -> None:
        left.append((entry.sequence, tokyo.left, blocks(sink)))

    tokyo.tick(*[[payload] for payload in payloads("e", 5)])
    listener = Apply(look if sink.dialect.name == "postgresql" else None)
    follow(listener, max_batch_entries=2)
    eventually(lambda: tokyo.left == 0)
    assert (story(sink), calls(listener), blocks(sink)) == (texts("e", 5), [2, 2, 1], 0)
    if left:
        assert left == [(1, 5, 1), (2, 5, 1), (3, 3, 1), (4, 3, 1), (5, 1, 1)]


def test_the_entries_left_in_a_block_come_after_a_restart(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    def refuse_e3(entry: RoutingTableEntryMsg) -> None:
        if entry.opaque_payload == b"e3":
            raise ValueError("no")

    tokyo.tick(*[[payload] for payload in payloads("e", 4)])
    with follow(Apply(refuse_e3)):
        eventually(lambda: tokyo.left == 2)
    follow(Apply())
    eventually(lambda: tokyo.left == 0)
    assert (story(sink), blocks(sink)) == (texts("e", 4), 0)


def test_a_kept_block_does_not_outlive_a_rollback(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    went_back = []

    def go_back_at_e2(entry: RoutingTableEntryMsg) -> None:
        if entry.opaque_payload == b"e2" and not went_back:
            went_back.append(True)
            raise ValueError("no")

    tokyo.tick([b"e1"])
    tokyo.tick([b"e2"], [b"e3"])
    subscription = follow(Apply(go_back_at_e2), max_batch_entries=1, backoff=0.2, max_backoff=0.2)
    eventually(lambda: went_back)
    # The block of e2 and e3 is unpacked by now; other entries get its numbers, on the same branch.
    tokyo.go_back(1)
    tokyo.tick([b"f2"], [b"f3"])
    eventually(lambda: tokyo.left == 0)
    subscription.close()
    assert story(sink) == ["e1", "f2", "f3"]


def test_a_rollback_into_a_block_that_is_partly_applied_is_undone(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    def refuse_e4(entry: RoutingTableEntryMsg) -> None:
        if entry.opaque_payload == b"e4":
            raise ValueError("no")

    tokyo.tick(*[[payload] for payload in payloads("e", 5)])
    with follow(Undo(refuse_e4)):
        eventually(lambda: tokyo.left == 2)
    tokyo.go_back(2)
    assert (tokyo.left, blocks(sink)) == (0, 0)
    tokyo.tick([b"f3"])
    follow(Undo())
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2", "e3", "<back to 2>", "f3"]


def test_a_rollback_into_a_block_before_its_unapplied_entries_keeps_these(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    tokyo.tick(*[[payload] for payload in payloads("e", 5)])
    tokyo.go_back(3)
    tokyo.tick([b"f4"])
    follow(Apply(), max_batch_entries=2)
    eventually(lambda: tokyo.left == 0)
    assert (story(sink), blocks(sink)) == (["e1", "e2", "e3", "f4"], 0)


def test_a_parked_transaction_leaves_the_rest_of_its_block(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    def refuse_e2(entry: RoutingTableEntryMsg) -> None:
        if entry.opaque_payload == b"e2":
            raise ValueError("no")

    tokyo.tick(*[[payload] for payload in payloads("e", 4)])
    follow(Apply(refuse_e2), on_failure="park", max_tries=2)
    eventually(lambda: tokyo.left == 0)
    assert (story(sink), blocks(sink)) == (["e1", "e3", "e4"], 0)
    assert [(each.sequence, each.entries) for each in parked(sink)] == [(2, 1)]


def test_a_damaged_block_is_reported_and_delays_no_other_source(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    lima = Arrivals(sink, source="lima")
    tokyo.tick([b"e1"])
    tokyo.tick([b"e2"])
    with sink.begin() as connection:
        connection.execute(update(receive_blocks).where(receive_blocks.c.end_seq == 2).values(block=b"\x01garbage"))
    lima.tick([b"other"])
    follow(listener)
    eventually(lambda: lima.left == 0)
    eventually(lambda: any("entries from 2 to 2 are damaged" in str(error) for _, error in listener.errors))
    eventually(lambda: tokyo.left == 1)

    def told() -> str:
        # A transaction for each look: on SQLite an open one keeps the subscriber from writing.
        with sink.connect() as connection:
            return str(connection.execute(select(consumer_failures.c.error)).scalar())

    eventually(lambda: "request a snapshot" in told())
    tokyo.snapshot("s1", [b"row"], base=2)
    eventually(lambda: story(sink) == ["e1", "<start>", "row", "<complete>"])


def test_the_counters_of_a_queue_without_entries_agree(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.tick(*[[payload] for payload in payloads("e", 7)])
    with sink.connect() as connection:
        size = connection.execute(select(func.sum(receive_blocks.c.size))).scalar_one()
    with sink.begin() as connection:
        connection.execute(update(receive_marks).values(bytes_total=size))
    follow(listener, max_batch_entries=3)
    eventually(lambda: tokyo.left == 0)
    with sink.connect() as connection:
        assert connection.execute(select(consumers.c.applied_bytes)).scalar_one() == size
