"""Requests of producers that are stored at the same time: each stays a source transaction of its own."""

import threading
from collections.abc import Iterator, Sequence

import pytest
from sqlalchemy import Engine, text

from lr_server.feed.router import entry_rows
from queues.clock import now_us
from queues.database import leases
from queues.destinations import destination_set
from queues.names import ClientName
from queues.positions import Position
from queues.send_log.opening import open_log, open_store
from queues.send_log.outbox import NewEntry
from queues.send_log.port import LogRow, TickLimits, TickRows
from queues.send_log.producers import ProducerKey, Production, RequestVerdict, Store
from queues.send_log.request_group import RequestGroup
from tests.waiting import eventually

CLIENT = ClientName("meters")
SET = destination_set(CLIENT, ["tokyo"])
SMALL = TickLimits(rows=4, payload_bytes=1_000)


def production(sequence: int, *payloads: bytes, producer: str = "p", item_key: str | None = None) -> Production:
    entries = [NewEntry(payload, SET, item_key) for payload in payloads]
    return Production(ProducerKey(CLIENT, producer), sequence, entries)


@pytest.fixture
def store(site: Engine) -> Iterator[Store]:
    opened = open_store(site, SMALL)
    yield opened
    opened.close()


@pytest.fixture
def roomy(site: Engine) -> Iterator[Store]:
    opened = open_store(site)
    yield opened
    opened.close()


def ticks(site: Engine, limits: TickLimits) -> list[TickRows]:
    """Take ticks until no entry is left."""
    log = open_log(site, limits)
    lease = leases.acquire(site, "server", "me", ttl=600)
    assert lease is not None
    taken: list[TickRows] = []
    while (found := log.take_tick(lease, taken[-1].tick if taken else None)) is not None:
        taken.append(found)
    log.close()
    return taken


def transactions(rows: Sequence[LogRow]) -> list[list[bytes]]:
    """Return the payloads by source transaction, as receivers get them."""
    groups: dict[int, list[bytes]] = {}
    for entry in entry_rows(rows):
        groups.setdefault(entry.transaction_index, []).append(entry.payload)
    return list(groups.values())


def all_transactions(taken: Sequence[TickRows]) -> list[list[bytes]]:
    return [group for tick in taken for group in transactions(tick.rows or ())]


SENT = [
    production(1, b"a", b"b"),
    production(1, b"c", producer="q"),
    production(2, b"d"),
    production(3, b"e", b"f", b"g"),
]
RECEIVED = [[b"a", b"b"], [b"c"], [b"d"], [b"e", b"f", b"g"]]


def test_receivers_get_each_request_of_a_group_as_a_transaction(site: Engine, roomy: Store) -> None:
    roomy.store(SENT, now_us())
    (tick,) = ticks(site, TickLimits())
    assert transactions(tick.rows or ()) == RECEIVED
    (again,) = open_log(site).followed([tick.tick])
    assert transactions(again.rows or ()) == RECEIVED, "later reads give the same transactions"


def test_on_postgresql_the_requests_of_a_group_share_a_transaction(site: Engine, roomy: Store) -> None:
    outcomes = roomy.store(SENT, now_us())
    shared = 1 if site.dialect.name == "postgresql" else len(SENT)
    assert len({outcome.last.token for outcome in outcomes}) == shared


def test_requests_share_no_transaction_above_the_limits_of_a_tick(site: Engine, store: Store) -> None:
    store.store([*SENT, production(4, *[b"x"] * 5), production(5, b"y")], now_us())
    taken = ticks(site, SMALL)
    assert [tick.rows is None for tick in taken].count(True) == 1, "only the request above the limits is large"
    assert all_transactions(taken) == [*RECEIVED, [b"y"]]


def test_the_place_of_each_request_is_that_of_its_last_message(site: Engine, roomy: Store) -> None:
    outcomes = roomy.store(SENT, now_us())
    (tick,) = ticks(site, TickLimits())
    newest = [outcomes[1], outcomes[3]]
    places = [Position(tick.tick.branch, seq) for seq in (2, 3, 4, 7)]
    asked = [(request.key, outcome.last) for request, outcome in zip(SENT, outcomes, strict=True)]
    assert [place.position for place in roomy.places(asked)] == places
    again = roomy.store([production(1, b"c", producer="q"), production(3, b"e", b"f", b"g")], now_us())
    assert [outcome.verdict for outcome in again] == [RequestVerdict.REPEATED] * 2
    assert [outcome.last for outcome in again] == [outcome.last for outcome in newest]
    asked = [(production(0, producer=name).key, outcome.last) for name, outcome in zip("qp", again, strict=True)]
    assert [place.position for place in roomy.places(asked)] == [places[1], places[3]]


_REFUSE = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'bad is not wanted'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON lrq_log_entries FOR EACH ROW WHEN (NEW.item_key = 'bad')
    EXECUTE FUNCTION refuse()
"""


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_an_error_of_one_request_fails_no_other_request(site: Engine, store: Store) -> None:
    with site.begin() as connection:
        connection.execute(text(_REFUSE))
    asked = [production(1, b"a"), production(1, b"x", producer="q", item_key="bad"), production(2, b"b")]
    outcomes = store.store(asked, now_us())
    assert [outcome.verdict.name for outcome in outcomes] == ["STORED", "REFUSED", "STORED"]
    assert "bad is not wanted" in outcomes[1].reason
    assert all_transactions(ticks(site, SMALL)) == [[b"a"], [b"b"]]


def test_two_servers_that_store_the_same_new_requests_store_each_once(site: Engine) -> None:
    asked = [production(number, b"%d %d" % (number, p), producer=f"p{p}") for p in range(8) for number in (1, 2)]
    begin = threading.Barrier(2)
    found: list[str] = []

    def run(requests: Sequence[Production]) -> None:
        opened = open_store(site)
        begin.wait()
        found.extend(outcome.verdict.name for outcome in opened.store(requests, now_us()))
        opened.close()

    threads = [threading.Thread(target=run, args=(requests,)) for requests in (asked, [*asked[8:], *asked[:8]])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["REPEATED"] * 16 + ["STORED"] * 16
    stored = all_transactions(ticks(site, TickLimits()))
    assert sorted(stored) == sorted([entry.payload for entry in request.entries] for request in asked)


_WAITS_FOR_A_LOCK = text(
    "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_group_waits_for_another_server_that_stores_a_request_of_the_same_producer(
    site: Engine, store: Store
) -> None:
    store.store([production(1, b"a"), production(1, b"b", producer="q")], now_us())
    found: list[str] = []

    def run() -> None:
        asked = [production(2, b"c"), production(2, b"d", producer="q")]
        found.extend(outcome.verdict.name for outcome in store.store(asked, now_us()))

    thread = threading.Thread(target=run)
    with site.connect() as watch, site.begin() as other:
        other.execute(text("UPDATE lrq_producers SET sequence = 2 WHERE producer = 'p'"))
        thread.start()
        eventually(lambda: watch.execute(_WAITS_FOR_A_LOCK).scalar_one())
    thread.join()
    assert found == ["REPEATED", "STORED"]
    assert all_transactions(ticks(site, SMALL)) == [[b"a"], [b"b"], [b"d"]]


def test_a_group_without_a_request_to_store_leaves_no_trace(site: Engine, store: Store) -> None:
    outcomes = store.store([production(7, b"x"), production(0, producer="q")], now_us())
    assert [outcome.verdict.name for outcome in outcomes] == ["GAP", "ASKED"]
    with site.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM lrq_producers")).scalar_one() == 0


def test_a_refused_request_moves_no_producer() -> None:
    group = RequestGroup({}, lambda _: pytest.fail("the request is not accepted"))
    assert group.decide(production(1, b"a"), "it is refused").verdict is RequestVerdict.REFUSED
    assert group.decide(production(2, b"b"), "").verdict is RequestVerdict.GAP
    assert group.moved == {}
