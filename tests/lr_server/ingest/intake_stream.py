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
        #: The refusal of each group of requests; None admits it.
        self.lack: Refusal | None = None
        limits = RequestLimits(10_000, 1_000, 10, rules={"*": ProducerRule(destinations=["tokyo", "lima"])})
        rules = IntakeRules(
            "paris", limits, lambda: self.leader, lambda: None, IngestCounters(), under_way or UnderWay(), share
        )
        self.intake = Intake(self, rules, None, self.settle)

    def admit(self, requests: Sequence[Pending]) -> Refusal | None:
        """See `Desk`."""
        if self.lack is None:
            self.kept += requests
        return self.lack

    def settle(self, replies: Sequence[tuple[Slot, Reply]]) -> None:
        """Keep the replies."""
        self.settled += replies

    def take(self, *requests: bytes) -> list[Slot]:
        """Take requests that came together; return their slots."""
        slots = [Slot(len(each)) for each in requests]
        self.intake.take(requests, slots)
        return slots

    @property
    def sequences(self) -> list[int]:
        """The numbers of the requests that wait."""
        return [pending.production.sequence for pending in self.kept]

    @property
    def refusals(self) -> list[pb.ProduceRefusal]:
        """The refusals so far."""
        return [reply.refusal for _, reply in self.settled if reply is not None and reply.HasField("refusal")]
