"""A sink tells an order for a replay, and carries the order out or ends it as the source says."""

from collections.abc import Sequence

import pytest
from sqlalchemy import Engine, insert, update

from queues.clock import now_us
from queues.database import actions
from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_headers
from queues.database.tables.receive import replays as stored
from queues.database.transactions import reading, writing
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.receive import replay_marks, replays
from queues.receive.replays import ReplayOrder, ReplayState, ReplayWish
from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from tests.sink.conftest import talk
from tests.sink.frames import BRANCH, FIRST, SECOND, batch, begin, chunk, end, header, request, tick

POLICY, PARIS = ClientName("policy"), SiteId("paris")
THIRD = batch(5, tick(5, 6, [b"entry 6"]))


def subscribed(engine: Engine, seq: int, *, undoes: bool = True, sync_id: str = "", back_seq: int = -1) -> None:
    """Store the marks of a subscriber that has applied the log up to *seq*."""
    values = {"version": 0, "generation": 0, "phase": "log", "sync_id": sync_id, "row_no": 0, "branch": BRANCH}
    more = {"seq": seq, "applied_total": 0, "undoes": undoes, "back_seq": back_seq, "updated_us": 0}
    with writing(engine) as connection:
        connection.execute(insert(consumers).values(queue_id=queue_id(engine), **values, **more))


def queue_id(engine: Engine) -> int:
    with reading(engine) as connection:
        found = replay_marks.read_marks(connection, POLICY, PARIS)
    assert found is not None
    return found.queue_id


def ordered(engine: Engine, **wish: object) -> str:
    with writing(engine) as connection:
        return replays.place(connection, queue_id(engine), ReplayWish(**{"from_seq": 4, **wish}), "ada")  # type: ignore[arg-type]


def last(engine: Engine) -> ReplayOrder:
    with reading(engine) as connection:
        found = replays.of_queue(connection, POLICY, PARIS)
    assert found is not None
    return found


def answered(sink: SinkWriter, order_id: str, **answer: object) -> pb.NegotiateResponse:
    asked = request()
    asked.replay.CopyFrom(pb.ReplayAnswer(order_id=order_id, **answer))  # type: ignore[arg-type]
    return sink.negotiate(asked)


@pytest.fixture
def sink(engine: Engine):
    """Give the writer of a site with six received entries."""
    sink = SinkWriter(engine, SiteId("tokyo"))
    talk(sink, FIRST, SECOND, THIRD)
    yield sink
    with writing(engine) as connection:
        connection.execute(stored.delete())
        connection.exec_driver_sql("DELETE FROM lrq_actions")


def outcomes(engine: Engine) -> Sequence[tuple[str, str]]:
    return [(each.person, each.outcome) for each in actions.newest(engine)]


@pytest.mark.parametrize("undo", [True, False])
def test_a_granted_order_sets_the_queue_back_and_stores_the_action(engine: Engine, sink: SinkWriter, *, undo: bool):
    subscribed(engine, 5)
    order_id = ordered(engine, undo=undo)
    told = sink.negotiate(request()).replay
    assert (told.order_id, told.from_seq, told.branch, told.since_us) == (order_id, 4, "", 0)
    answer = answered(sink, order_id, after=header(0, 3))
    assert (answer.received.seq, answer.boundary.seq, answer.applied_seq) == (3, 3, 3)
    assert [each.end_seq for each in answer.headers] == [3]
    assert not answer.HasField("replay")
    with reading(engine) as connection:
        marks = connection.execute(consumers.select()).one()
    assert (marks.seq, marks.back_seq) == ((5, 3) if undo else (3, -1))
    words = "entries from 4 to 6 come again" + ("" if undo else ", without on_rollback")
    assert (last(engine).state, last(engine).outcome) == (ReplayState.BEGUN, words)
    assert outcomes(engine) == [("ada", f"replay of policy from paris begun: {words}")]
    assert [ack.received.seq for ack in talk(sink, SECOND, THIRD)] == [5, 6]


def test_a_queue_goes_back_to_a_tick_whose_header_it_has_forgotten(engine: Engine, sink: SinkWriter):
    subscribed(engine, 6)
    with writing(engine) as connection:
        connection.execute(receive_headers.delete().where(receive_headers.c.seq < 6))
    answer = answered(sink, ordered(engine), after=header(0, 3))
    assert [(each.end_seq, each.uid) for each in answer.headers] == [(3, 3)]
    # The source can go on from there, also after a crash of both sites.
    assert sink.negotiate(request()).headers == answer.headers


def test_a_refused_order_changes_nothing_and_is_told_once(engine: Engine, sink: SinkWriter):
    subscribed(engine, 6)
    answer = answered(sink, ordered(engine), refusal="trimmed")
    assert (answer.received.seq, answer.applied_seq) == (6, 6)
    assert not answer.HasField("replay")
    assert (last(engine).state, last(engine).outcome) == (ReplayState.REFUSED, "trimmed")
    assert outcomes(engine) == [("ada", "replay of policy from paris refused: trimmed")]


@pytest.mark.parametrize(
    ("marks", "wish", "after", "words"),
    [
        ({"seq": 3}, {}, 3, "entries up to 3 are applied, so none after 3 can come again"),
        ({"seq": 6, "undoes": False}, {}, 3, "the listener has no on_rollback"),
        ({"seq": 6, "back_seq": 5}, {"undo": False}, 3, "the listener still undoes"),
        ({"seq": 6}, {}, 7, "no tick that ends at 7 was received"),
    ],
)
def test_the_facts_are_checked_again_as_the_queue_goes_back(
    engine: Engine, sink: SinkWriter, marks: dict[str, int], wish: dict[str, object], after: int, words: str
):
    subscribed(engine, **marks)  # type: ignore[arg-type]
    answer = answered(sink, ordered(engine, **wish), after=header(0, after))
    assert answer.received.seq == 6
    assert last(engine).state is ReplayState.REFUSED
    assert words in last(engine).outcome


def test_a_rollback_that_is_pending_goes_further_back(engine: Engine, sink: SinkWriter):
    subscribed(engine, 6, back_seq=5)
    assert answered(sink, ordered(engine), after=header(0, 3)).applied_seq == 3
    with reading(engine) as connection:
        assert connection.execute(consumers.select()).one().back_seq == 3


def test_the_answer_to_an_earlier_order_changes_nothing(engine: Engine, sink: SinkWriter):
    subscribed(engine, 6)
    earlier = ordered(engine)
    later = ordered(engine, from_seq=6)
    answer = answered(sink, earlier, after=header(0, 3))
    assert (answer.received.seq, answer.replay.order_id) == (6, later)
    assert answered(sink, later, after=header(3, 5)).received.seq == 5
    # A repeated answer, after an answer that was lost, changes nothing either.
    assert answered(sink, later, after=header(0, 3)).received.seq == 5


def test_an_answer_without_a_tick_and_without_a_refusal_is_refused(engine: Engine, sink: SinkWriter):
    subscribed(engine, 6)
    order_id = ordered(engine)
    assert answered(sink, order_id).refusal.kind == pb.Refusal.CORRUPT
    assert answered(sink, order_id, after=pb.TickHeader(end_seq=2**63)).refusal.kind == pb.Refusal.CORRUPT
    assert last(engine).waits


def test_an_order_ends_the_stream_that_works(engine: Engine, sink: SinkWriter):
    subscribed(engine, 6)
    sink.negotiate(request())

    def frames():
        yield batch(6, tick(6, 7, [b"entry 7"]))
        ordered(engine)
        yield batch(7, tick(7, 8, [b"entry 8"]))

    first, second = sink.replicate(frames())
    assert first.received.seq == 7
    assert second.refusal.kind == pb.Refusal.NO_STREAM_BEGIN


def test_nothing_goes_back_behind_a_snapshot_or_its_cut(engine: Engine, sink: SinkWriter):
    rows = [b"row"]
    talk(sink, begin("s"), chunk("s", 1, rows), end("s", rows, base=Position(BRANCH, 10), header=header(6, 10)))
    with reading(engine) as connection:
        assert replay_marks.read_marks(connection, POLICY, PARIS).floor_seq == 10  # type: ignore[union-attr]


def test_a_time_and_a_branch_are_told(engine: Engine, sink: SinkWriter):
    subscribed(engine, 6)
    moment = now_us()
    ordered(engine, from_seq=0, since_us=moment)
    assert sink.negotiate(request()).replay.since_us == moment
    ordered(engine, branch="b1")
    assert sink.negotiate(request()).replay.branch == "b1"


def test_an_order_of_an_unfinished_snapshot_is_refused(engine: Engine, sink: SinkWriter):
    subscribed(engine, 6)
    with writing(engine) as connection:
        connection.execute(update(consumers).values(phase="snapshot"))
    answered(sink, ordered(engine), after=header(0, 3))
    assert "has not applied the newest snapshot" in last(engine).outcome
