"""Groups of requests that cannot be stored: each ends, and its trouble is forgotten."""

from collections.abc import Iterator, Sequence

import pytest

from lr_server.ingest.counters import IngestCounters
from lr_server.ingest.pending import Pending, Reply, Slot
from lr_server.ingest.storing import FORGOTTEN, Storing
from lr_server.ingest.waiting import Room, Waiting
from queues.clock import SystemClock
from queues.errors import StoreUnavailableError
from queues.names import ClientName
from queues.send_log.producers import Last, Place, ProducerKey, Production, RequestVerdict, StoreOutcome
from tests.waiting import eventually

FULL = "the disk is full"


class HandClock(SystemClock):
    """A clock whose monotonic time moves by hand."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def monotonic(self) -> float:
        return self.time


class Unusable:
    """A store on a full disk; with `outcomes` a commit fails there."""

    is_durable_at_once = False
    outcomes: Sequence[StoreOutcome] = ()

    def store(self, requests: Sequence[Production], created_us: int) -> list[StoreOutcome]:
        if self.outcomes:
            return list(self.outcomes)
        raise StoreUnavailableError(FULL)

    def place(self, key: ProducerKey, last: Last) -> Place:
        raise NotImplementedError

    def close(self) -> None:
        """Hold no connection."""


class Site:
    """The storing of a site whose disk is full; `told` has the calls around each group."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.told: list[str] = []
        self.replies: list[Sequence[tuple[Slot, Reply]]] = []
        self.waiting = Waiting(Room(8, 1_000), Room(8, 1_000), self.clock)
        self.store = Unusable()
        self.storing = Storing(
            self.store, self.waiting,
            begin=lambda: self.told.append("begin"), answer=lambda *_: self.told.append("end"),
            counters=IngestCounters(), clock=self.clock, on_ended=lambda _: None,
        )  # fmt: skip

    def send(self) -> None:
        """Send one request, and wait until its group has ended."""
        ended = self.told.count("end")
        production = Production(ProducerKey(ClientName("c"), "p"), 1, ())
        self.waiting.put([Pending(production, Slot(1), self.replies.append)])
        eventually(lambda: self.told.count("end") > ended)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.storing.start()
    yield site
    site.waiting.close("the test ends")
    site.storing.join()


def test_each_group_that_begins_also_ends_since_ticks_are_kept_meanwhile(site: Site) -> None:
    for _ in range(2):
        site.send()
    eventually(lambda: site.told == ["begin", "end"] * 2)


def test_a_failure_is_told_as_a_trouble_and_forgotten_without_further_requests(site: Site) -> None:
    site.send()
    assert site.storing.trouble == FULL
    site.clock.time += FORGOTTEN
    assert site.storing.trouble == ""
    site.send()
    assert site.storing.trouble == FULL


def test_an_unknown_outcome_is_told_as_a_trouble_until_a_group_is_stored(site: Site) -> None:
    site.store.outcomes = [StoreOutcome(RequestVerdict.UNKNOWN, reason="the commit failed")]
    site.send()
    assert site.storing.trouble == "the commit failed"
    site.store.outcomes = [StoreOutcome(RequestVerdict.STORED)]
    site.send()
    assert site.storing.trouble == ""


@pytest.mark.parametrize("verdict", [RequestVerdict.ASKED, RequestVerdict.REPEATED, RequestVerdict.GAP])
def test_an_answer_without_a_write_does_not_end_a_trouble(site: Site, verdict: RequestVerdict) -> None:
    site.send()
    site.store.outcomes = [StoreOutcome(verdict)]
    site.send()
    assert site.storing.trouble == FULL
