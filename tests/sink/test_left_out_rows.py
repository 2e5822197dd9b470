"""A sink acknowledges no entry or row that a trigger of others leaves out of its tables."""

from collections.abc import Iterator, Sequence

import pytest
from sqlalchemy import Engine, delete, insert, select

from queues.database.tables.consumers import parked_entries
from queues.database.tables.receive import receive_queues
from queues.database.tables.shards import shard_changes, shard_marks
from queues.database.transactions import writing
from queues.errors import SetupError
from queues.names import site_id
from queues.positions import Position
from queues.receive import replay_marks
from queues.receive.parked_rows import LOG
from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from tests.left_out import rows_left_out
from tests.sink.conftest import Contents, Conversation, accepted, refused, talk
from tests.sink.frames import BRANCH, FIRST, SECOND, batch, begin, chunk, end, numbered, request, tick


def writer(engine: Engine) -> SinkWriter:
    return SinkWriter(engine, site_id("tokyo"))


LATER = {
    "one block": batch(3, tick(3, 4, numbered(4, 4))),
    "several blocks": batch(3, *(tick(n - 1, n, numbered(n, n)) for n in (4, 5, 6))),
    "many blocks": batch(3, *(tick(n - 1, n, numbered(n, n)) for n in range(4, 104))),
}


TABLES = [("lrq_receive_blocks", "INSERT"), ("lrq_receive_headers", "INSERT"), ("lrq_receive_marks", "UPDATE")]


@pytest.mark.parametrize(("table", "on"), TABLES)
@pytest.mark.parametrize("frames", [[FIRST], *([FIRST, later] for later in LATER.values())], ids=["first", *LATER])
def test_entries_that_a_trigger_leaves_out_are_refused_and_come_once_it_is_gone(
    engine: Engine, contents: Contents, frames: Sequence[pb.Frame], table: str, on: str
) -> None:
    """Frames go other ways by their size, and the first one of a stream another one than those after it.

    A change of the marks is no other case: the source would forget entries that the marks do not know.
    """
    sink = writer(engine)
    assert not sink.negotiate(request()).HasField("refusal")
    stream = Conversation(sink)
    for frame in frames[:-1]:
        assert not stream.say(frame).HasField("refusal")
    held = contents.log()
    with rows_left_out(engine, table, on=on):
        answer = stream.say(frames[-1])
        assert answer.refusal.kind == pb.Refusal.TRANSIENT
        assert f"left rows out of {table}: drop it" in answer.refusal.reason
        assert contents.log() == held
    last = frames[-1].batch.groups[-1].header.end_seq
    assert accepted(talk(writer(engine), frames[-1])).received.seq == last
    assert contents.log() == list(enumerate(numbered(1, last), start=1))


@pytest.mark.parametrize("count", [3, 100])
def test_rows_of_a_snapshot_that_a_trigger_leaves_out_are_refused(
    engine: Engine, contents: Contents, count: int
) -> None:
    payloads = numbered(1, count)
    sent = chunk("s1", 1, *([each] for each in payloads))
    with rows_left_out(engine, "lrq_receive_snapshot_blocks", "NEW.last_row = 2"):
        reason = refused(talk(writer(engine), begin("s1"), sent)).reason
    assert "left rows out of lrq_receive_snapshot_blocks" in reason
    accepted(talk(writer(engine), begin("s1"), sent, end("s1", payloads)))
    assert [payload for _, _, payload in contents.staged()] == payloads


PARKED = {
    "kind": LOG, "branch": BRANCH, "seq": 5, "transaction_seq": 5, "committed_us": 0, "payload": b"5", "error": "",
    "tries": 1, "parked_us": 0,
}  # fmt: skip


@pytest.fixture
def applied(engine: Engine, contents: Contents) -> Iterator[SinkWriter]:
    """Give the writer of a site whose two shards have applied four entries and parked the fifth."""
    sink = writer(engine)
    accepted(talk(sink, FIRST, SECOND))
    contents.consume(5, undoes=True)
    position = {"version": 1, "generation": 0, "seq": 5, "applied_total": 0, "updated_us": 0}
    with engine.begin() as connection:
        queue_id = connection.execute(select(receive_queues.c.queue_id)).scalar_one()
        rows = [{**position, "queue_id": queue_id, "shard": shard} for shard in (0, 1)]
        connection.execute(insert(shard_marks), rows)
        connection.execute(insert(shard_changes).values(queue_id=queue_id, version=1, after_seq=0))
        connection.execute(insert(parked_entries).values({**PARKED, "queue_id": queue_id}))
    yield sink
    with engine.begin() as connection:
        for table in (shard_marks, shard_changes, parked_entries):
            connection.execute(delete(table))


@pytest.mark.parametrize(
    ("table", "on", "when"),
    [
        ("lrq_receive_blocks", "DELETE", "OLD.end_seq = 5"),
        ("lrq_receive_headers", "DELETE", "OLD.seq = 5"),
        ("lrq_shard_marks", "UPDATE", "OLD.shard = 1"),
        ("lrq_consumers", "UPDATE", "true"),
        ("lrq_consumers", "UPDATE", "NEW.back_seq = 3"),
    ],
)
def test_a_rollback_of_which_a_trigger_leaves_out_a_part_changes_nothing(
    engine: Engine, contents: Contents, applied: SinkWriter, table: str, on: str, when: str
) -> None:
    """With the rest alone the listener would keep entries that the source has lost, or get them."""
    back = request(rollback_to=Position(BRANCH, 3))
    with rows_left_out(engine, table, when, on=on):
        assert f"left rows out of {table}: drop it" in applied.negotiate(back).refusal.reason
        assert (len(contents.log()), len(contents.headers()), contents.to_undo()) == (5, 2, -1)
    assert not applied.negotiate(back).HasField("refusal")
    assert (len(contents.log()), len(contents.headers()), contents.to_undo()) == (3, 1, 3)


@pytest.mark.parametrize(
    ("table", "on", "when"),
    [
        ("lrq_consumers", "UPDATE", "NEW.seq = 3"),
        ("lrq_shard_marks", "UPDATE", "OLD.shard = 1"),
        ("lrq_parked_entries", "DELETE", "true"),
    ],
)
@pytest.mark.usefixtures("applied")
def test_a_replay_without_undo_fails_whole_if_a_trigger_leaves_out_a_part(
    engine: Engine, table: str, on: str, when: str
) -> None:
    with engine.connect() as connection:
        queue_id = connection.execute(select(receive_queues.c.queue_id)).scalar_one()
    told = pytest.raises(SetupError, match=f"left rows out of {table}: drop it")
    with rows_left_out(engine, table, when, on=on), told, writing(engine) as connection:
        replay_marks.set_back(connection, queue_id, BRANCH, 3)
    with writing(engine) as connection:
        replay_marks.set_back(connection, queue_id, BRANCH, 3)


@pytest.mark.parametrize(("table", "column"), [("lrq_receive_blocks", "end_seq"), ("lrq_receive_headers", "seq")])
def test_a_snapshot_is_not_published_over_a_log_that_a_trigger_keeps(
    engine: Engine, contents: Contents, table: str, column: str
) -> None:
    accepted(talk(writer(engine), FIRST, begin("s1"), chunk("s1", 1, [b"a"])))
    with rows_left_out(engine, table, f"OLD.{column} = 3", on="DELETE"):
        assert f"left rows out of {table}" in refused(talk(writer(engine), end("s1", [b"a"]))).reason
    accepted(talk(writer(engine), end("s1", [b"a"])))
    assert (contents.log(), contents.headers()) == ([], [])
