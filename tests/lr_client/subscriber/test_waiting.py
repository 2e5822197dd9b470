"""`wait_applied` returns when, and only when, the subscriber has applied the transaction."""

import pytest
from sqlalchemy import Engine

from lr_client.subscriber.wait_applied import wait_applied
from queues.errors import InvalidPositionError, WaitTimeoutError
from queues.positions import PgSnapshot, PositionToken, Visibility
from queues.receive.parked import parked
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.lr_client.subscriber.applying import Apply, story
from tests.lr_client.subscriber.arrivals import BRANCH, Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually


def token(transaction: int, branch: str = BRANCH, client: str = "policy", site: str = "tokyo") -> PositionToken:
    return PositionToken(site, client, branch, transaction)


def assert_not_applied(sink: Engine, what: PositionToken) -> None:
    with pytest.raises(WaitTimeoutError):
        wait_applied(sink, what, timeout=0)


def test_the_wait_ends_when_the_entry_has_been_applied(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.tick([b"e1"], mark=Visibility(high=17))
    assert_not_applied(sink, token(17))
    follow(listener)
    wait_applied(sink, token(17), timeout=20)
    assert story(sink) == ["e1"]
    assert_not_applied(sink, token(18))


def test_the_text_of_a_token_is_accepted(sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow) -> None:
    tokyo.tick([b"e1"], mark=Visibility(high=17))
    follow(listener)
    wait_applied(sink, str(token(17)), timeout=20)
    with pytest.raises(InvalidPositionError):
        wait_applied(sink, "no token", timeout=0)


def test_the_wait_lasts_while_the_listener_refuses(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    def refuse(entry: RoutingTableEntryMsg) -> object:
        return False if entry.opaque_payload == b"e2" else None

    tokyo.tick([b"e1"], mark=Visibility(high=1))
    tokyo.tick([b"e2"], mark=Visibility(high=2))
    listener = Apply(refuse)
    follow(listener)
    eventually(lambda: len(listener.errors) > 2)
    wait_applied(sink, token(1), timeout=0)
    assert_not_applied(sink, token(2))


def test_a_parked_transaction_counts_as_applied(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tokyo.tick([b"e1"], mark=Visibility(high=1))
    follow(Apply(lambda _: False), on_failure="park", max_tries=1)
    wait_applied(sink, token(1), timeout=20)
    assert story(sink) == []
    assert len(parked(sink)) == 1


def test_a_quiet_tick_counts_too(sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow) -> None:
    tokyo.tick([b"e1"], mark=Visibility(high=1))
    tokyo.tick(gap=50, mark=Visibility(high=51))
    follow(listener)
    wait_applied(sink, token(51), timeout=20)


def test_a_postgresql_transaction_counts_when_its_tick_sees_it(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.tick([b"e1"], mark=Visibility(window=PgSnapshot(100, 110, frozenset({105}))))
    follow(listener)
    wait_applied(sink, token(104), timeout=20)
    assert_not_applied(sink, token(105))
    assert_not_applied(sink, token(110))
    tokyo.tick([b"e2"], mark=Visibility(window=PgSnapshot(106, 120, frozenset())))
    wait_applied(sink, token(105), timeout=20)


def test_a_snapshot_with_the_transaction_counts_when_it_is_applied(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.snapshot("s1", [b"r1"], base=40, cut=str(Visibility(window=PgSnapshot(200, 200, frozenset()))))
    assert_not_applied(sink, token(199))
    follow(listener)
    wait_applied(sink, token(199), timeout=20)
    assert story(sink) == ["<start>", "r1", "<complete>"]
    assert_not_applied(sink, token(200))


def test_a_replacing_snapshot_counts_only_when_it_is_applied(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.tick([b"e1"], mark=Visibility(high=1))
    subscription = follow(listener)
    wait_applied(sink, token(1), timeout=20)
    subscription.close()
    tokyo.snapshot("s1", [b"r1"], base=1, cut=str(Visibility(high=9)))
    assert_not_applied(sink, token(9))


def test_a_token_of_another_branch_does_not_count(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.snapshot("s1", [], base=0, cut=str(Visibility(high=20)))
    tokyo.tick([b"e1"], mark=Visibility(high=30))
    follow(listener)
    wait_applied(sink, token(30), timeout=20)
    assert_not_applied(sink, token(5, branch="branch-2"))


def test_the_error_names_the_processes_to_check(sink: Engine) -> None:
    with pytest.raises(WaitTimeoutError, match="is a subscriber of 'policy' running, and does 'tokyo' replicate"):
        wait_applied(sink, token(1), timeout=0)
