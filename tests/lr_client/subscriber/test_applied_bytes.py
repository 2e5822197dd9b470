"""The subscriber counts the bytes of the log entries that leave its queue: the sink's room depends on them."""

from sqlalchemy import Engine, func, select

from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_blocks
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.lr_client.subscriber.applying import Apply, payloads
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually


def applied_bytes(sink: Engine) -> int:
    with sink.connect() as connection:
        return connection.execute(select(consumers.c.applied_bytes)).scalar_one()


def held_bytes(sink: Engine) -> int:
    with sink.connect() as connection:
        return int(connection.execute(select(func.sum(receive_blocks.c.size))).scalar_one())


def test_applied_entries_are_counted_in_bytes(sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow) -> None:
    entries = payloads("e", 10)
    tokyo.tick(entries[:4], *[[payload] for payload in entries[4:]])
    size = held_bytes(sink)
    follow(listener, max_batch_entries=3)
    eventually(lambda: tokyo.left == 0)
    assert applied_bytes(sink) == size


def refuse_b2(entry: RoutingTableEntryMsg) -> None:
    """Refuse one entry for ever."""
    if entry.opaque_payload == b"b2":
        raise ValueError("no")


def test_parked_entries_are_counted_once(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tokyo.tick([b"a1"], [b"b1", b"b2"], [b"c1"])
    size = held_bytes(sink)
    follow(Apply(refuse_b2), on_failure="park", max_tries=2)
    eventually(lambda: tokyo.left == 0)
    assert applied_bytes(sink) == size


def test_rows_of_a_snapshot_are_not_counted(sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow) -> None:
    tokyo.snapshot("s1", payloads("s", 5), base=7)
    tokyo.tick([b"later"])
    size = held_bytes(sink)
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert applied_bytes(sink) == size
