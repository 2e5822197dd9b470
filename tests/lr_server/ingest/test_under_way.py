"""The requests that a server passes on to the leader are bounded for all its streams together."""

from collections.abc import Iterator, Sequence

import pytest

from lr_server.ingest.counters import IngestCounters
from lr_server.ingest.intake import Intake, IntakeRules, Leader
from lr_server.ingest.pending import Reply, Slot
from lr_server.ingest.request_check import RequestLimits
from lr_server.ingest.servicer import IngestServicer
from lr_server.ingest.under_way import UnderWay
from lr_server.ingest.waiting import Room
from lr_server.setting_types import ProducerRule
from queues.clock import SYSTEM_CLOCK
from queues.wire import ingest_pb2 as pb
from sink import serve
from tests.lr_server.ingest.test_servicer import NoSink
from tests.waiting import eventually


class StandingStill:
    """The intake of a leader that answers nothing."""

    def take(self, requests: Sequence[bytes], slots: Sequence[Slot]) -> None:
        """Keep the requests."""

    def close(self) -> None:
        """Hold nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    servicer = IngestServicer(lambda *_: StandingStill(), SYSTEM_CLOCK)  # type: ignore[arg-type, return-value]
    with serve(NoSink(), ["tcp://127.0.0.1:0"], more=[servicer.handlers()], more_streams=8) as service:
        yield service.endpoints[0]


class Stream:
    """A stream of a producer at a server beside the leader."""

    def __init__(self, rules: IntakeRules) -> None:
        self.intake = Intake(None, rules, None, self.settle)  # type: ignore[arg-type]
        self.replies: list[Reply] = []

    def settle(self, replies: Sequence[tuple[Slot, Reply]]) -> None:
        """Keep the replies."""
        self.replies += [reply for _, reply in replies]

    def take(self) -> None:
        message = pb.ProducedMessage(payload=b"x", destinations=["tokyo"])
        request = pb.ProduceRequest(client="policy", producer="meter", sequence=1, messages=[message])
        sent = request.SerializeToString()
        self.intake.take([sent], [Slot(len(sent))])

    def close(self) -> None:
        """End the stream to the leader, if there is one."""
        forwarding = self.intake._forwarding
        if forwarding._upstream is not None:
            channel = forwarding._upstream._shared.channel
            # gRPC looks at a new connection for a moment, and its thread fails if the connection is closed meanwhile.
            eventually(lambda: not channel._connectivity_state.polling)  # type: ignore[attr-defined]
        self.intake.close()


def test_requests_on_their_way_to_the_leader_are_bounded(endpoint: str):
    limits = RequestLimits(10_000, 1_000, 10, rules={"*": ProducerRule()})
    leader = Leader(is_me=False, endpoint=endpoint)
    under_way = UnderWay(Room(2, 10_000))
    rules = IntakeRules("paris", limits, lambda: leader, lambda: None, IngestCounters(), under_way)
    first, second, third = (Stream(rules) for _ in range(3))
    for stream in (first, second, third):
        stream.take()
    assert (first.replies, second.replies) == ([], [])
    (refused,) = third.replies
    assert refused is not None
    assert refused.refusal.kind == pb.ProduceRefusal.FULL
    first.close()
    eventually(lambda: first.replies == [None])
    third.take()
    assert len(third.replies) == 1
    for stream in (second, third):
        stream.close()


def test_the_bytes_are_bounded_too():
    under_way = UnderWay(Room(10, 100))
    assert under_way.enter(Room(1, 1_000)) == ""
    assert "as many requests as may be under way (1) wait" in under_way.enter(Room(1, 1))
    under_way.leave(Room(1, 1_000))
    assert under_way.enter(Room(1, 60)) == ""
    assert under_way.enter(Room(1, 60))
    assert under_way.enter(Room(1, 40)) == ""
