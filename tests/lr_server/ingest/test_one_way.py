"""A request that would go another way than the unanswered ones of its stream is refused for now."""

from lr_server.ingest.intake import Leader
from lr_server.ingest.one_way import HERE, OneWay
from lr_server.ingest.pending import settle_all
from lr_server.ingest.refusal import stored
from queues.wire import ingest_pb2 as pb
from tests.lr_server.ingest.intake_stream import IntakeStream, request

ELSEWHERE = "ipc:///nowhere"


def test_a_way_changes_only_without_unanswered_requests():
    way = OneWay()
    assert way.enter(HERE)
    assert way.enter(HERE)
    way.leave()
    assert not way.enter(ELSEWHERE)
    way.leave()
    assert way.enter(ELSEWHERE)
    assert not way.enter(HERE)


def test_a_later_request_never_overtakes_an_unanswered_one_on_another_way():
    stream = IntakeStream()

    def take(sequence: int) -> None:
        stream.take(request(sequence))

    take(1)
    stream.leader = Leader(is_me=False, endpoint=ELSEWHERE)
    take(2)
    (refused,) = stream.refusals
    assert refused.kind == pb.ProduceRefusal.TRANSIENT
    assert "another server begins to store requests now" in refused.reason
    settle_all([(stream.kept[0], stored(1, "", None))])
    stream.leader = Leader(is_me=True)
    take(2)
    assert stream.sequences == [1, 2]


def test_requests_that_are_answered_together_leave_the_way_together():
    stream = IntakeStream()
    stream.take(*(request(sequence) for sequence in range(1, 6)))
    settle_all((pending, stored(1, "", None)) for pending in stream.kept[:4])
    assert not stream.has_a_free_way()
    settle_all([(stream.kept[4], stored(5, "", None))])
    assert stream.has_a_free_way()
