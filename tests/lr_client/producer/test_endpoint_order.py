"""The servers of a site in turn: the next one after a failure, leaders of the same kind, and pauses."""

import pytest

from lr_client.producer.endpoint_order import BACKOFF, EndpointOrder

ONE, TWO = "tls://a:1", "tls://b:2"


def test_a_failure_goes_on_to_the_next_server_and_a_success_stays():
    order = EndpointOrder(f"{ONE}, {TWO}")
    assert str(order.current) == ONE
    assert order.failed() == 0.0
    assert str(order.current) == TWO
    order.succeeded()
    assert str(order.current) == TWO
    order.failed()
    assert str(order.current) == ONE


def test_pauses_begin_once_each_server_has_failed_and_grow_to_a_limit():
    order = EndpointOrder(f"{ONE},{TWO}")
    pauses = [order.failed() for _ in range(20)]
    assert pauses[:4] == [0.0, BACKOFF.delay_seconds(1), BACKOFF.delay_seconds(2), BACKOFF.delay_seconds(3)]
    assert pauses[-1] == BACKOFF.cap_seconds
    order.succeeded()
    assert order.failed() == 0.0


def test_a_leader_is_followed_and_after_a_failure_of_the_leader_the_named_servers_come_again():
    order = EndpointOrder(ONE)
    assert order.failed("tls://c:3") == 0.0
    assert str(order.current) == "tls://c:3"
    order.failed()
    assert str(order.current) == ONE


def test_two_servers_that_name_each_other_are_asked_with_pauses():
    order = EndpointOrder(f"{ONE},{TWO}")
    assert [order.failed(leader) for leader in [TWO, ONE] * 10][-1] == BACKOFF.cap_seconds


@pytest.mark.parametrize(
    "leader", ["tcp://c:3", "ipc:///tmp/s", "local:paris", "nonsense", "tls://" + "c" * 600 + ":1"]
)
def test_no_server_leads_a_producer_away_from_tls(leader: str):
    order = EndpointOrder(f"{ONE},{TWO}")
    order.failed(leader)
    assert str(order.current) == TWO
