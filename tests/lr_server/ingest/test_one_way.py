"""A request that would go another way than the unanswered ones of its stream is refused for now."""

from lr_server.ingest.counters import IngestCounters
from lr_server.ingest.intake import Intake, IntakeRules, Leader
from lr_server.ingest.one_way import HERE, OneWay
from lr_server.ingest.refusal import Refusal, stored
from lr_server.ingest.request_check import RequestLimits
from lr_server.ingest.under_way import UnderWay
from lr_server.ingest.waiting import Pending
from lr_server.setting_types import ProducerRule
from queues.wire import ingest_pb2 as pb

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


class Keeping:
    """A desk that keeps its requests unanswered."""

    def __init__(self) -> None:
        self.kept: list[Pending] = []

    def admit(self, pending: Pending) -> Refusal | None:
        self.kept.append(pending)
        return None


def test_a_later_request_never_overtakes_an_unanswered_one_on_another_way():
    leader, desk = [Leader(is_me=True)], Keeping()
    limits = RequestLimits(10_000, 1_000, 10, rules={"*": ProducerRule()})
    rules = IntakeRules("paris", limits, lambda: leader[0], lambda: None, IngestCounters(), UnderWay())
    intake = Intake(desk, rules, None)
    replies: list[pb.ProduceReply | None] = []

    def take(sequence: int) -> None:
        message = pb.ProducedMessage(payload=b"x", destinations=["tokyo"])
        request = pb.ProduceRequest(client="policy", producer="meter", sequence=sequence, messages=[message])
        intake.take(request.SerializeToString(), replies.append)

    take(1)
    leader[0] = Leader(is_me=False, endpoint=ELSEWHERE)
    take(2)
    (refused,) = replies
    assert refused is not None
    assert refused.refusal.kind == pb.ProduceRefusal.TRANSIENT
    assert "another server begins to store requests now" in refused.refusal.reason
    desk.kept[0].settle(stored(1, "", None))
    leader[0] = Leader(is_me=True)
    take(2)
    assert [pending.production.sequence for pending in desk.kept] == [1, 2]
