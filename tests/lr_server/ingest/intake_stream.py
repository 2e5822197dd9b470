"""One stream at an intake whose desk keeps its requests unanswered."""

from collections.abc import Sequence

from discovery.rings import WHOLE, Share
from lr_server.ingest.counters import IngestCounters
from lr_server.ingest.intake import Intake, IntakeRules, Leader
from lr_server.ingest.pending import Pending, Reply, Slot
from lr_server.ingest.refusal import Refusal
from lr_server.ingest.request_check import RequestLimits
from lr_server.ingest.under_way import UnderWay
from lr_server.setting_types import ProducerRule
from queues.wire import ingest_pb2 as pb


def request(sequence: int, producer: str = "meter", key: str | None = None, destination: str = "tokyo") -> bytes:
    """Return a request with one message."""
    message = pb.ProducedMessage(payload=b"x", destinations=[destination], partition_key=key)
    made = pb.ProduceRequest(client="policy", producer=producer, sequence=sequence, messages=[message])
    return made.SerializeToString()


class IntakeStream:
    """A stream; `kept` are its requests that wait, and `settled` its replies."""

    def __init__(self, share: Share = WHOLE, under_way: UnderWay | None = None) -> None:
        self.leader = Leader(is_me=True)
        self.kept: list[Pending] = []
        self.settled: list[tuple[Slot, Reply]] = []
        #: The producers without room for a request.
        self.full: set[str] = set()
        limits = RequestLimits(10_000, 1_000, 10, rules={"*": ProducerRule(destinations=["tokyo", "lima"])})
        rules = IntakeRules(
            "paris", limits, lambda: self.leader, lambda: None, IngestCounters(), under_way or UnderWay(), share
        )
        self.intake = Intake(self, rules, None, self.settle)

    def admit(self, requests: Sequence[Pending]) -> Refusal | None:
        """See `Desk`."""
        if requests[0].production.key.producer in self.full:
            return Refusal(pb.ProduceRefusal.FULL, "as many as one may have here")
        self.kept += requests
        return None

    def settle(self, replies: Sequence[tuple[Slot, Reply]]) -> None:
        """Keep the replies."""
        self.settled += replies

    def take(self, *requests: bytes) -> list[Slot]:
        """Take requests that came together; return their slots."""
        slots = [Slot(len(each)) for each in requests]
        self.intake.take(requests, slots)
        return slots

    def has_a_free_way(self) -> bool:
        """Return whether a request may go another way than those before it."""
        self.leader = Leader(is_me=False, endpoint="ipc:///elsewhere", lack="no server can store requests")
        self.take(request(99))
        return self.refusals[-1].kind == pb.ProduceRefusal.NO_FOLLOWER

    @property
    def sequences(self) -> list[int]:
        """The numbers of the requests that wait."""
        return [pending.production.sequence for pending in self.kept]

    @property
    def refusals(self) -> list[pb.ProduceRefusal]:
        """The refusals so far."""
        return [reply.refusal for _, reply in self.settled if reply is not None and reply.HasField("refusal")]
