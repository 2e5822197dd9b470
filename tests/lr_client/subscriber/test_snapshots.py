"""A snapshot is bracketed by its callbacks, comes before the log, and is replaced by a newer one."""

from collections.abc import Callable
from zlib import crc32

import pytest
import zstandard
from sqlalchemy import Engine, delete, select, update

from queues.block_limits import MAX_ROWS
from queues.database import tables
from queues.database.transactions import writing
from queues.errors import SnapshotFailedError
from queues.wire.entry_pb2 import SNAPSHOT_SYNC, RoutingTableEntryMsg
from queues.wire.replication_pb2 import ZSTD, Block
from tests.lr_client.subscriber.applying import Apply, payloads, story, texts
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually

WHOLE = ["<start>", *texts("r", 5), "<complete>", *texts("e", 10)]


def arrive(tokyo: Arrivals) -> list[Callable[[], object]]:
    """Return the steps in which a sink receives five snapshot rows and then ten log entries."""
    return [
        lambda: tokyo.stage("s1", payloads("r", 2)),
        lambda: tokyo.stage("s1", payloads("r", 5)[2:]),
        lambda: tokyo.complete_snapshot("s1", base=7),
        lambda: tokyo.tick(*[[payload] for payload in payloads("e", 10)[:4]]),
        lambda: tokyo.tick(*[[payload] for payload in payloads("e", 10)[4:]], gap=3),
    ]


@pytest.mark.parametrize("before", range(6))
def test_subscribing_before_during_or_after_the_first_sync_has_the_same_result(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow, before: int
) -> None:
    steps = arrive(tokyo)
    for step in steps[:before]:
        step()
    follow(listener)
    for step in steps[before:]:
        step()
    eventually(lambda: len(story(sink)) >= len(WHOLE))
    assert story(sink) == WHOLE
    assert tokyo.left == 0


def test_an_incomplete_snapshot_is_not_begun(sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow) -> None:
    tokyo.tick([b"e1"])
    tokyo.stage("s1", payloads("r", 5))
    follow(listener)
    tokyo.tick([b"e2"])
    eventually(lambda: story(sink) == ["e1", "e2"])
    tokyo.complete_snapshot("s1", base=2)
    eventually(lambda: story(sink)[2:] == ["<start>", *texts("r", 5), "<complete>"])


def test_the_envelope_of_a_row_names_its_snapshot_and_number(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.snapshot("s1", [b"r1", b"r2"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    [[first, second]] = listener.calls
    assert (first.type, first.sync_id, first.sequence, second.sequence) == (SNAPSHOT_SYNC, "s1", 1, 2)
    assert (first.source_id, first.client_name, first.transaction) == ("tokyo", "policy", 0)


def test_an_empty_snapshot_starts_and_completes(sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow) -> None:
    tokyo.snapshot("s1", [])
    tokyo.tick([b"e1"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["<start>", "<complete>", "e1"]


def test_a_large_snapshot_comes_in_bounded_batches(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.snapshot("s1", payloads("r", 25))
    follow(listener, max_batch_entries=10)
    eventually(lambda: story(sink)[-1:] == ["<complete>"])
    assert story(sink) == ["<start>", *texts("r", 25), "<complete>"]
    assert [len(call) for call in listener.calls] == [10, 10, 5]


def test_a_second_snapshot_replaces_unapplied_log_entries(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.snapshot("s1", payloads("r", 2))
    tokyo.tick([b"old"])
    tokyo.snapshot("s2", payloads("q", 2), base=1)
    tokyo.tick([b"new"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["<start>", "q1", "q2", "<complete>", "new"]


def test_a_newer_snapshot_in_the_middle_of_one_starts_over_with_the_newer(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    def refuse_the_third(entry: RoutingTableEntryMsg) -> None:
        if entry.opaque_payload == b"r3":
            raise ValueError("stuck")

    listener = Apply(refuse_the_third)
    tokyo.snapshot("s1", payloads("r", 200))
    follow(listener, max_batch_entries=20)
    eventually(lambda: len(listener.errors) > 3)
    assert story(sink) == ["<start>", "r1", "r2"]
    tokyo.snapshot("s2", payloads("q", 200))
    eventually(lambda: story(sink)[-1:] == ["<complete>"])
    assert story(sink) == ["<start>", "r1", "r2", "<start>", *texts("q", 200), "<complete>"]


def test_rows_of_a_snapshot_that_is_replaced_during_the_call_are_undone(
    sink: Engine, tokyo: Arrivals, dialect: str, follow: Follow
) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has one writer: the newer snapshot comes before or after, never in the middle")
    replaced = []

    def replace_once(entry: RoutingTableEntryMsg) -> None:
        if not replaced:
            replaced.append(entry)
            tokyo.snapshot("s2", payloads("q", 3))

    tokyo.snapshot("s1", payloads("r", 3))
    listener = Apply(replace_once)
    follow(listener)
    eventually(lambda: story(sink)[-1:] == ["<complete>"])
    assert story(sink) == ["<start>", "<start>", *texts("q", 3), "<complete>"]
    assert listener.errors == []


def test_log_entries_that_a_snapshot_replaces_during_the_call_are_undone(
    sink: Engine, tokyo: Arrivals, dialect: str, follow: Follow
) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has one writer: the snapshot comes before or after, never in the middle")
    replaced = []

    def replace_once(entry: RoutingTableEntryMsg) -> None:
        if not replaced:
            replaced.append(entry)
            tokyo.snapshot("s1", payloads("q", 3))
            # The new entries have the numbers of the earlier ones.
            tokyo.tick([b"n1"], [b"n2"])

    tokyo.tick([b"e1"], [b"e2"])
    listener = Apply(replace_once)
    follow(listener)
    eventually(lambda: story(sink)[-1:] == ["n2"])
    assert story(sink) == ["<start>", *texts("q", 3), "<complete>", "n1", "n2"]
    assert listener.errors == []


@pytest.mark.parametrize("callback", ["on_snapshot_sync_start", "on_snapshot_sync_complete"])
def test_a_failing_callback_is_repeated_until_it_is_recorded_once(
    sink: Engine, tokyo: Arrivals, follow: Follow, callback: str
) -> None:
    troubles = [1, 2, 3]

    def fail_first(self: Apply, session, source_id) -> None:
        getattr(Apply, callback)(self, session, source_id)
        if troubles:
            raise ValueError(f"not yet {troubles.pop()}")

    listener = type("Hesitant", (Apply,), {callback: fail_first})()
    tokyo.snapshot("s1", payloads("r", 2))
    follow(listener, on_failure="park", max_tries=1)
    eventually(lambda: story(sink)[-1:] == ["<complete>"])
    assert story(sink) == ["<start>", "r1", "r2", "<complete>"]
    assert len(listener.errors) == 3


def test_damaged_rows_are_never_applied_and_a_new_snapshot_repairs_the_queue(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.snapshot("s1", payloads("r", 3))
    table = tables.receive.receive_snapshot_blocks
    with writing(sink) as connection:
        stored = connection.execute(select(table.c.block).where(table.c.last_row == 3)).scalar_one()
        torn = update(table).where(table.c.last_row == 3).values(block=stored.replace(b"r3", b"r4"))
        connection.execute(torn)
    follow(listener)
    eventually(lambda: listener.errors)
    assert isinstance(listener.errors[0][1], SnapshotFailedError)
    assert "from row 3 on are damaged" in str(listener.errors[0][1])
    tokyo.snapshot("s2", payloads("q", 2))
    eventually(lambda: story(sink)[-1:] == ["<complete>"])
    told = story(sink)
    # The sound rows before the damage may come, one by one, until the new snapshot replaces them.
    assert {what for what in told if what.startswith("r")} <= {"r1", "r2"}
    assert told[-4:] == ["<start>", "q1", "q2", "<complete>"]


def test_a_stored_block_with_more_rows_than_a_block_may_have_is_not_unpacked(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.snapshot("s1", payloads("r", 3))
    plain = b"\n\x00" * (MAX_ROWS + 1)
    body = zstandard.ZstdCompressor().compress(plain)
    bomb = Block(codec=ZSTD, rows=MAX_ROWS + 1, body=body, plain_size=len(plain), crc32=crc32(body))
    table = tables.receive.receive_snapshot_blocks
    with writing(sink) as connection:
        connection.execute(update(table).where(table.c.last_row == 3).values(block=bomb.SerializeToString()))
    follow(listener)
    eventually(lambda: listener.errors)
    assert isinstance(listener.errors[0][1], SnapshotFailedError)
    assert f"the limit is {MAX_ROWS}" in str(listener.errors[0][1])


@pytest.mark.parametrize("last_row", [2, 3])
def test_vanished_rows_are_reported_in_words_and_a_new_snapshot_repairs_the_queue(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow, last_row: int
) -> None:
    tokyo.snapshot("s1", payloads("r", 3))
    table = tables.receive.receive_snapshot_blocks
    with writing(sink) as connection:
        connection.execute(delete(table).where(table.c.last_row == last_row))
    follow(listener, on_failure="park", max_tries=1)
    eventually(lambda: listener.errors)
    assert isinstance(listener.errors[0][1], SnapshotFailedError)
    assert "request a new snapshot" in str(listener.errors[0][1])
    tokyo.snapshot("s2", payloads("q", 2))
    eventually(lambda: story(sink)[-1:] == ["<complete>"])
    before = texts("r", last_row - 1 if last_row > 2 else 0)
    assert story(sink) == ["<start>", *before, "<start>", "q1", "q2", "<complete>"]
