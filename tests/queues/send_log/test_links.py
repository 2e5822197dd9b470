"""Refusals of entries for a link that has ended, on every way into the send log."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from lr_client import RoutingQueueSenderClient
from queues.browse.send_log import browsing
from queues.clock import now_us
from queues.database.transactions import reading, writing
from queues.destinations import destination_set
from queues.errors import LinkEndedError
from queues.names import ClientName, SiteId
from queues.send_log import links
from queues.send_log.epochs import store_epoch
from queues.send_log.opening import open_store
from queues.send_log.outbox import NewEntry
from queues.send_log.port import SessionKey
from queues.send_log.producers import ProducerKey, Production, RequestVerdict, Store
from queues.send_log.staging import Epoch, PartStaging
from queues.states import LinkWish

POLICY = ClientName("policy")
TOKYO = SessionKey(POLICY, SiteId("tokyo"))
client = RoutingQueueSenderClient("policy")


def wish(site: Engine, wanted: LinkWish, *keys: SessionKey) -> None:
    with writing(site) as connection:
        links.set_wish(connection, keys or [TOKYO], wanted)


def transmit(site: Engine, *to: str) -> None:
    with site.begin() as connection:
        client.transmit_log_entry_message(connection, b"x", to)


def stored(site: Engine) -> int:
    with reading(site) as connection:
        return browsing(connection).count(connection, None, 1_000)


@pytest.mark.parametrize("wanted", [LinkWish.DRAINING, LinkWish.ENDED])
def test_a_sender_that_knows_old_facts_is_refused_at_once(site: Engine, wanted: LinkWish) -> None:
    transmit(site, "lima", "tokyo")
    wish(site, wanted)
    with pytest.raises(LinkEndedError, match="'policy' to 'tokyo' has ended"):
        transmit(site, "lima", "tokyo")
    transmit(site, "lima")
    assert stored(site) == 2
    wish(site, LinkWish.RUNNING)
    transmit(site, "lima", "tokyo")
    assert stored(site) == 3


def test_a_refusal_of_known_facts_leaves_the_transaction_usable(site: Engine) -> None:
    wish(site, LinkWish.DRAINING)
    transmit(site, "lima")
    with site.begin() as connection:
        with pytest.raises(LinkEndedError):
            client.transmit_log_entry_message(connection, b"x", ["tokyo"])
        client.transmit_log_entry_message(connection, b"x", ["lima"])
    assert stored(site) == 2


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_refused_entries_take_no_ids(site: Engine) -> None:
    transmit(site, "tokyo")
    wish(site, LinkWish.DRAINING)
    with site.begin() as connection, pytest.raises(LinkEndedError):
        client.transmit_log_entry_message(connection, b"x", ["tokyo"])
    transmit(site, "lima")
    with reading(site) as connection:
        assert connection.execute(text("SELECT last_id FROM lrq_log_head")).scalar_one() == 2


def test_links_of_other_clients_and_released_links_take_entries(site: Engine) -> None:
    wish(site, LinkWish.ENDED, SessionKey(ClientName("tenant"), SiteId("tokyo")))
    wish(site, LinkWish.RELEASED, SessionKey(POLICY, SiteId("lima")))
    transmit(site, "lima", "tokyo")
    assert stored(site) == 1


def test_an_end_that_is_rolled_back_refuses_nothing(site: Engine) -> None:
    transmit(site, "tokyo")
    connection = site.connect()
    transaction = connection.begin()
    links.set_wish(connection, [TOKYO], LinkWish.DRAINING)
    transaction.rollback()
    connection.close()
    transmit(site, "tokyo")
    transmit(site, "tokyo")
    with writing(site) as connection:
        links.mend_number(connection)
    transmit(site, "tokyo")
    wish(site, LinkWish.DRAINING)
    with pytest.raises(LinkEndedError):
        transmit(site, "tokyo")
    assert stored(site) == 4


TO_TOKYO = {
    "sqlite": "INSERT INTO lrq_transmit (client, payload, destinations) VALUES ('policy', x'01', 'lima,tokyo')",
    "postgresql": "SELECT lrq_transmit('policy', 'x'::bytea, ARRAY['lima', 'tokyo'])",
}


def test_sql_is_refused(site: Engine, dialect: str) -> None:
    with site.begin() as connection:
        connection.execute(text(TO_TOKYO[dialect]))
    wish(site, LinkWish.DRAINING)
    with pytest.raises(DBAPIError, match="has ended: leave the site out"), site.begin() as connection:
        connection.execute(text(TO_TOKYO[dialect]))
    assert stored(site) == 1


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_followed_table_is_refused(site: Engine) -> None:
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id int PRIMARY KEY)"))
        connection.execute(text("SELECT lrq_follow('orders', client => 'policy', destinations => ARRAY['tokyo'])"))
        connection.execute(text("INSERT INTO orders VALUES (1)"))
    wish(site, LinkWish.ENDED)
    with pytest.raises(DBAPIError, match="has ended"), site.begin() as connection:
        connection.execute(text("INSERT INTO orders VALUES (2)"))
    assert stored(site) == 1


@pytest.fixture
def store(site: Engine) -> Iterator[Store]:
    opened = open_store(site)
    yield opened
    opened.close()


def production(sequence: int, *to: str) -> Production:
    return Production(ProducerKey(POLICY, "p"), sequence, [NewEntry(b"x", destination_set(POLICY, to))])


def test_a_request_of_a_producer_is_refused_and_nothing_of_it_is_stored(site: Engine, store: Store) -> None:
    (first,) = store.store([production(1, "tokyo")], now_us())
    assert first.verdict is RequestVerdict.STORED
    wish(site, LinkWish.DRAINING)
    repeated, refused = store.store([production(1, "tokyo"), production(2, "lima", "tokyo")], now_us())
    assert repeated.verdict is RequestVerdict.REPEATED
    assert refused.verdict is RequestVerdict.REFUSED
    assert "has ended: leave the site out" in refused.reason
    (other,) = store.store([production(2, "lima")], now_us())
    assert other.verdict is RequestVerdict.STORED
    assert stored(site) == 2


def staged(site: Engine, epoch: Epoch) -> list:
    staging = PartStaging(site, epoch)
    staging.add(NewEntry(b"x", destination_set(POLICY, ["tokyo"])))
    return [staging.finish()]


def test_rows_of_spark_are_refused_when_they_are_staged_and_when_they_are_moved(site: Engine) -> None:
    before, after = Epoch(POLICY, "spark job j", 1), Epoch(POLICY, "spark job j", 2)
    parts = staged(site, before)
    wish(site, LinkWish.DRAINING)
    with pytest.raises(LinkEndedError):
        store_epoch(site, before, parts)
    with pytest.raises(LinkEndedError):
        staged(site, after)
    assert stored(site) == 0
    wish(site, LinkWish.RUNNING)
    assert store_epoch(site, before, parts)
    assert stored(site) == 1


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_an_end_in_progress_makes_senders_wait_and_then_refuses_them(
    site: Engine, in_thread: Callable[[Callable[[], None]], Callable[[], BaseException | None]]
) -> None:
    transmit(site, "tokyo")
    with site.connect() as connection, connection.begin() as transaction:
        links.set_wish(connection, [TOKYO], LinkWish.DRAINING)
        joined = in_thread(lambda: transmit(site, "tokyo"))
        _await_lock(connection)
        transaction.commit()
    assert isinstance(joined(), LinkEndedError)
    assert stored(site) == 1


def _await_lock(connection: Connection) -> None:
    from tests.waiting import eventually

    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    eventually(lambda: connection.execute(waiting).scalar_one())


@pytest.fixture
def in_thread() -> Callable[[Callable[[], None]], Callable[[], BaseException | None]]:
    """Give a function that calls another one in a thread, and returns a function for its error."""
    import threading

    def start(call: Callable[[], None]) -> Callable[[], BaseException | None]:
        raised: list[BaseException] = []

        def run() -> None:
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()

        def join() -> BaseException | None:
            thread.join(30)
            return raised[0] if raised else None

        return join

    return start
