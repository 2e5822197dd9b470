"""The stores of producers' requests: the verdict on each request of a group."""

import sqlite3
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, PoolProxiedConnection

from queues.clock import now_us
from queues.destinations import destination_set
from queues.errors import StoreUnavailableError
from queues.names import ClientName
from queues.send_log.opening import open_store
from queues.send_log.outbox import NewEntry
from queues.send_log.producers import ProducerKey, Production, RequestVerdict, Store, StoreOutcome

Verdict = RequestVerdict
CLIENT = ClientName("meters")
SET = destination_set(CLIENT, ["tokyo"])


@pytest.fixture
def store(site: Engine) -> Iterator[Store]:
    opened = open_store(site)
    yield opened
    opened.close()


def production(sequence: int, entries: int = 1, producer: str = "p", payload: bytes = b"x") -> Production:
    written = [NewEntry(payload, SET, None, None, None) for _ in range(entries)]
    return Production(ProducerKey(CLIENT, producer), sequence, written)


def verdicts(outcomes: list[StoreOutcome]) -> list[tuple[RequestVerdict, int]]:
    return [(outcome.verdict, outcome.last.sequence) for outcome in outcomes]


def test_each_waiting_request_is_a_source_transaction_of_its_own(store: Store) -> None:
    asked = [production(1, 2), production(1, producer="q"), production(2, 3), production(2, producer="q")]
    outcomes = store.store(asked, now_us())
    assert verdicts(outcomes) == [(Verdict.STORED, request.sequence) for request in asked]
    assert len({(outcome.last.token, outcome.last.request) for outcome in outcomes}) == len(asked)
    (last,) = store.store([production(0)], now_us())
    assert (last.verdict, last.last) == (Verdict.ASKED, outcomes[2].last)


def test_a_group_of_new_repeated_and_misnumbered_requests_is_decided_one_by_one(store: Store) -> None:
    store.store([production(1)], now_us())
    asked = [production(number) for number in (1, 2, 3, 3, 0, 4, 9, 5)]
    assert verdicts(store.store(asked, now_us())) == [
        (Verdict.REPEATED, 1), (Verdict.STORED, 2), (Verdict.STORED, 3), (Verdict.REPEATED, 3), (Verdict.ASKED, 3),
        (Verdict.STORED, 4), (Verdict.GAP, 4), (Verdict.STORED, 5),
    ]  # fmt: skip


@pytest.mark.parametrize("known", [2, 4, 5])
def test_successive_requests_that_are_stored_in_part_are_stored_once(store: Store, known: int) -> None:
    store.store([production(number) for number in range(1, known + 1)], now_us())
    again = store.store([production(number) for number in range(2, 7)], now_us())
    assert [outcome.verdict for outcome in again] == [
        Verdict.REPEATED if number <= known else Verdict.STORED for number in range(2, 7)
    ]
    assert again[-1].last.sequence == 6


def test_successive_requests_of_an_unknown_producer_after_a_gap_store_nothing(store: Store) -> None:
    assert verdicts(store.store([production(4), production(5)], now_us())) == [(Verdict.GAP, 0), (Verdict.GAP, 0)]


def test_later_requests_wait_for_the_decision_on_earlier_ones_that_were_not_the_next(store: Store) -> None:
    store.store([production(1), production(2)], now_us())
    asked = [production(1), production(2), production(3), *(production(number, 100) for number in (4, 5, 6))]
    assert verdicts(store.store(asked, now_us())) == [
        (Verdict.REPEATED, 2), (Verdict.REPEATED, 2), *((Verdict.STORED, number) for number in (3, 4, 5, 6)),
    ]  # fmt: skip


def test_a_refused_destination_fails_its_request_and_none_before(store: Store) -> None:
    own = NewEntry(b"x", destination_set(CLIENT, ["paris"]), None, None, None)
    asked = [production(1), production(2), Production(ProducerKey(CLIENT, "p"), 3, [own]), production(4)]
    outcomes = store.store(asked, now_us())
    assert [outcome.verdict for outcome in outcomes] == [Verdict.STORED, Verdict.STORED, Verdict.REFUSED, Verdict.GAP]
    assert "is this site itself" in outcomes[2].reason


def test_a_request_that_races_with_its_own_repeat_has_the_token_of_its_transaction(store: Store) -> None:
    asked = [production(number) for number in (1, 2, 3, 1, 2, 4, 5)]
    outcomes = store.store(asked, now_us())
    assert [outcome.verdict for outcome in outcomes] == [
        *[Verdict.STORED] * 3, *[Verdict.REPEATED] * 2, *[Verdict.STORED] * 2,
    ]  # fmt: skip
    assert all(outcome.last.token for outcome in outcomes)


def refusal(name: str, words: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(words)
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_commit_that_a_full_disk_refuses_has_stored_nothing(
    store: Store, site: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(connection: PoolProxiedConnection) -> None:
        raise refusal("SQLITE_FULL", "database or disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(site.dialect, "do_commit", fail)
        with pytest.raises(StoreUnavailableError, match="disk is full"):
            store.store([production(1)], now_us())
    (again,) = store.store([production(1)], now_us())
    assert again.verdict is Verdict.STORED


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize("is_found", [True, False], ids=["found by a recovery", "lost"])
def test_a_commit_that_fails_on_the_disk_may_have_stored_its_requests(
    store: Store, site: Engine, monkeypatch: pytest.MonkeyPatch, is_found: bool
) -> None:
    commit = site.dialect.do_commit

    def fail(connection: PoolProxiedConnection) -> None:
        if is_found:
            commit(connection)
        raise refusal("SQLITE_IOERR_FSYNC", "disk I/O error")

    with monkeypatch.context() as broken:
        broken.setattr(site.dialect, "do_commit", fail)
        (outcome,) = store.store([production(1)], now_us())
    assert outcome.verdict is Verdict.UNKNOWN
    assert "disk I/O error" in outcome.reason
    (again,) = store.store([production(1)], now_us())
    assert again.verdict is (Verdict.REPEATED if is_found else Verdict.STORED)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_failure_before_the_commit_has_stored_nothing(store: Store, site: Engine) -> None:
    with site.begin() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    with pytest.raises(StoreUnavailableError):
        store.store([production(1)], now_us())
