"""A sink acknowledges no entry or row that a trigger of others leaves out of its tables."""

from collections.abc import Sequence

import pytest
from sqlalchemy import Engine

from queues.names import site_id
from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from tests.left_out import rows_left_out
from tests.sink.conftest import Contents, Conversation, accepted, refused, talk
from tests.sink.frames import FIRST, batch, begin, chunk, end, numbered, request, tick


def writer(engine: Engine) -> SinkWriter:
    return SinkWriter(engine, site_id("tokyo"))


LATER = {
    "one block": batch(3, tick(3, 4, numbered(4, 4))),
    "several blocks": batch(3, *(tick(n - 1, n, numbered(n, n)) for n in (4, 5, 6))),
    "many blocks": batch(3, *(tick(n - 1, n, numbered(n, n)) for n in range(4, 104))),
}


@pytest.mark.parametrize(("table", "on"), [("lrq_receive_blocks", "INSERT"), ("lrq_receive_marks", "UPDATE")])
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
