"""The places of many stored requests, found together."""

import random
from collections.abc import Iterator
from typing import Final

import pytest
from sqlalchemy import Engine, text

from queues.clock import now_us
from queues.database import leases
from queues.database.leases import Lease
from queues.database.postgresql import pipeline
from queues.destinations import destination_set
from queues.names import ClientName, SiteId
from queues.positions import Position, Tick
from queues.send_log.branches import begin_branch
from queues.send_log.opening import open_log, open_store
from queues.send_log.outbox import NewEntry
from queues.send_log.port import Log, LogRow, Retention, SessionKey, TickLimits, TickRows
from queues.send_log.producers import NO_REQUEST, Last, Place, ProducerKey, Production, Store

CLIENT: Final = ClientName("meters")
SET: Final = destination_set(CLIENT, ["tokyo"])
SMALL: Final = TickLimits(rows=5, payload_bytes=1_000)
WAITS: Final = Place(is_durable=False)

Stored = dict[ProducerKey, Last]


class Requests:
    """Stores the next requests of producers, each with its own payloads, and takes ticks."""

    def __init__(self, site: Engine, rows: int) -> None:
        self.stores = [open_store(site, SMALL), open_store(site)]
        self.log: Log = open_log(site, TickLimits(rows, 10_000))
        lease = leases.acquire(site, "server", "me", ttl=600)
        assert lease is not None
        self.lease: Lease = lease
        self.taken: list[TickRows] = []
        self.lasts: Stored = {}

    def store(self, sizes: dict[str, list[int]], store: Store) -> None:
        """Store requests of so many entries for each producer, in one group."""
        asked = []
        for producer, rows in sizes.items():
            key = ProducerKey(CLIENT, producer)
            first = self.lasts.get(key, NO_REQUEST).sequence + 1
            for sequence, count in enumerate(rows, first):
                entries = [NewEntry(f"{producer} {sequence}".encode(), SET) for _ in range(count)]
                asked.append(Production(key, sequence, entries))
        for request, outcome in zip(asked, store.store(asked, now_us()), strict=True):
            assert outcome.verdict.is_new
            self.lasts[request.key] = outcome.last

    def tick(self, most: int = 1_000) -> None:
        """Take at most *most* ticks."""
        for _ in range(most):
            last = self.taken[-1].tick if self.taken else None
            found = self.log.take_tick(self.lease, last)
            if found is None:
                return
            self.taken.append(found)

    def true_places(self) -> dict[bytes, Position]:
        """Return the place of the last entry with each payload, as a reader of the whole log sees it."""
        places: dict[bytes, Position] = {}
        for each in self.taken:
            for seq, row in enumerate(self._rows(each.tick), each.tick.start_seq + 1):
                places[row.payload] = Position(each.tick.branch, seq)
        return places

    def _rows(self, tick: Tick) -> list[LogRow]:
        if tick.is_large:
            pieces = self.log.stream(SessionKey(CLIENT, SiteId("tokyo")), tick, 0, TickLimits())
            return [row for piece in pieces for row in piece.rows]
        return self.log.read(SessionKey(CLIENT, SiteId("tokyo")), [tick])[0]


@pytest.fixture(params=[3, 40, 1_000])
def requests(site: Engine, request: pytest.FixtureRequest) -> Iterator[Requests]:
    made = Requests(site, request.param)
    yield made
    for store in made.stores:
        store.close()
    made.log.close()


def test_the_places_of_many_requests_are_those_that_readers_see(requests: Requests) -> None:
    chance = random.Random(7)
    for _ in range(30):
        names = chance.sample(range(60), chance.randint(1, 25))
        sizes = {f"p{name}": [chance.randint(1, 2) for _ in range(chance.randint(1, 3))] for name in names}
        requests.store(sizes, chance.choice(requests.stores))
        if chance.random() < 0.5:
            requests.tick(chance.randint(1, 4))
    requests.tick()
    asked = list(requests.lasts.items())
    chance.shuffle(asked)
    true = requests.true_places()
    found = requests.stores[0].places(asked)
    assert found == [Place(True, true[f"{key.producer} {last.sequence}".encode()]) for key, last in asked]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_requests_that_no_tick_covers_wait_beside_durable_ones(requests: Requests) -> None:
    requests.store({"a": [1], "b": [2]}, requests.stores[1])
    requests.tick()
    requests.store({"b": [1], "c": [1]}, requests.stores[1])
    true = requests.true_places()
    found = dict(zip(requests.lasts, requests.stores[1].places(list(requests.lasts.items())), strict=True))
    assert {key.producer: place for key, place in found.items()} == {
        "a": Place(is_durable=True, position=true[b"a 1"]), "b": WAITS, "c": WAITS,
    }  # fmt: skip


def test_trimmed_requests_are_durable_and_have_no_place(requests: Requests) -> None:
    requests.store({"a": [1, 1]}, requests.stores[1])
    requests.tick()
    assert requests.log.rotate(requests.lease, 1, 600.0)
    requests.store({"b": [1]}, requests.stores[1])
    requests.tick()
    requests.log.trim(requests.lease, Retention(0.0, 0))
    assert requests.log.bounds().trimmed_seq == 2
    a, b = requests.stores[1].places(list(requests.lasts.items()))
    assert a.is_durable
    assert b == Place(is_durable=True, position=Position(requests.taken[0].tick.branch, 3))


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_requests_of_an_earlier_branch_are_durable(requests: Requests, site: Engine) -> None:
    requests.store({"a": [1]}, requests.stores[1])
    requests.tick()
    with site.begin() as connection:
        begin_branch(connection, 2, 1, "another/2", "")
    assert requests.stores[1].places(list(requests.lasts.items())) == [Place(is_durable=True)]


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_look_at_many_requests_of_a_tick_sends_as_many_messages_as_a_look_at_one(
    requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests.store({f"p{number}": [1] for number in range(3)}, requests.stores[1])
    requests.tick()
    sent: list[int] = []
    ask = pipeline.ask
    monkeypatch.setattr(pipeline, "ask", lambda *call: sent.append(1) or ask(*call))
    asked = list(requests.lasts.items())
    counts = []
    for some in (asked, asked[:1], asked):
        sent.clear()
        requests.stores[1].places(some)
        counts.append(len(sent))
    assert counts[1] == counts[2] > 0


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    "trimming",
    ["UPDATE lrq_log_head SET trimmed_seq = 2", "DELETE FROM lrq_ticks WHERE number = 1"],
    ids=["in part", "the tick before"],
)
def test_a_request_has_no_place_while_its_tick_is_trimmed(requests: Requests, site: Engine, trimming: str) -> None:
    requests.store({"a": [1]}, requests.stores[1])
    requests.tick()
    requests.store({"b": [1, 1]}, requests.stores[1])
    requests.tick()
    with site.begin() as connection:
        connection.execute(text(trimming))
    (_, asked) = requests.lasts.items()
    assert requests.stores[1].places([asked]) == [Place(is_durable=True)]
