"""An observer of a subscription learns of each batch, and how long its entries were on their way."""

from collections.abc import Sequence

from lr_client import DeliveryObserver
from lr_client.subscriber.steps import DeliveryStep, Kind
from queues.receive.consumer_marks import Consumed
from queues.receive.received_rows import ReceivedRow
from tests.lr_client.subscriber.applying import Apply, payloads
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually


class Noting(DeliveryObserver):
    """Notes the numbers of entries and of delays."""

    def __init__(self) -> None:
        self.entries = 0
        self.seconds: list[float] = []

    def applied(self, source_id: str, entries: int, seconds: float) -> None:
        self.entries += entries

    def delays(self, source_id: str, seconds: Sequence[float]) -> None:
        self.seconds += seconds


def test_each_source_transaction_has_one_delay_and_rows_of_a_snapshot_have_none(
    tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    observer = Noting()
    tokyo.snapshot("s1", payloads("r", 5))
    tokyo.tick([b"a"], [b"b", b"c"])
    follow(listener, observer=observer)
    eventually(lambda: observer.entries == 8)
    eventually(lambda: len(observer.seconds) == 2)


def test_a_delay_begins_with_the_commit_at_the_source_and_is_never_negative() -> None:
    times = [(1, 1_000_000), (2, 4_000_000), (2, 4_000_000), (4, 9_000_000)]
    rows = [ReceivedRow(seq, seq, at_us, None, b"") for seq, at_us in times]
    marks = Consumed("log", "", 0, "branch", 0)
    step = DeliveryStep(Kind.LOG_ENTRIES, marks, marks, rows)
    assert step.delays(6_000_000) == [5.0, 2.0, 0.0]
