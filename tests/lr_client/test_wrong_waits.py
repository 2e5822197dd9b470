"""Waits and other calls with wrong times or sites are refused in one sentence, before anything is done."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine

from lr_client import RoutingQueueSenderClient, request_replay, wait_applied, watch_status
from lr_client.producer import RingsProducer
from lr_client.replays import wait_replay
from queues.errors import DestinationsError, UnknownDestinationError, UsageError

_TOKEN = "paris/policy/b/1"
_client = RoutingQueueSenderClient("policy")

CALLS: dict[str, Callable[[Engine, Any], object]] = {
    "wait_applied": lambda engine, timeout: wait_applied(engine, _TOKEN, timeout),
    "wait_replicated": lambda engine, timeout: _client.wait_replicated(engine, _TOKEN, ["tokyo"], timeout),
    "wait_replay": lambda engine, timeout: wait_replay(engine, object(), timeout),  # type: ignore[arg-type]
    "watch_status": lambda engine, timeout: watch_status(engine, timeout),
    "RingsProducer.close": lambda _, timeout: RingsProducer(
        {"paris-0": "tcp://127.0.0.1:1"}, client="policy", producer="hub"
    ).close(timeout),
}


@pytest.mark.parametrize("timeout", [None, "5", math.nan, True])
@pytest.mark.parametrize("call", CALLS)
def test_a_timeout_that_is_no_number_is_refused(site: Engine, call: str, timeout: object) -> None:
    with pytest.raises(UsageError, match=r"timeout is .*: use a number of seconds"):
        CALLS[call](site, timeout)


def test_a_transmitter_that_is_closed_with_a_wrong_timeout_works_on(site: Engine) -> None:
    with _client.start_snapshot_transmitter(site, lambda context: None) as transmitter:
        with pytest.raises(UsageError, match="timeout is None"):
            transmitter.close(None)  # type: ignore[arg-type]
        assert transmitter.active
        transmitter.close(math.inf)


@pytest.mark.parametrize("destinations", [None, 5])
def test_destinations_that_are_no_collection_are_refused(site: Engine, destinations: Any) -> None:
    with pytest.raises(DestinationsError, match=r"must be a collection of site ids, not (NoneType|int): write"):
        _client.wait_replicated(site, _TOKEN, destinations, 0)
    with site.begin() as connection, pytest.raises(DestinationsError, match="must be a collection of site ids, not"):
        _client.transmit_log_entry_message(connection, b"x", destinations)


def test_nothing_waits_for_the_own_site(site: Engine) -> None:
    with pytest.raises(UnknownDestinationError, match="'paris' is this site itself, which has the transaction"):
        _client.wait_replicated(site, _TOKEN, ["tokyo", "paris"], 0)


def test_a_token_of_another_site_is_refused_at_once(site: Engine) -> None:
    with pytest.raises(UsageError, match="is one of site 'oslo', and this is 'paris': wait there"):
        _client.wait_replicated(site, "oslo/policy/b/1", ["tokyo"], 0)


def test_a_token_of_this_site_is_never_applied_here(site: Engine) -> None:
    with pytest.raises(UsageError, match="is a token of 'paris' itself, where it is no received entry: wait at"):
        wait_applied(site, _TOKEN, 0)


def test_a_replay_needs_a_datetime(site: Engine) -> None:
    with pytest.raises(UsageError, match="'2026-07-01' is no moment: pass a datetime"):
        request_replay(site, "policy", "tokyo", since="2026-07-01")  # type: ignore[arg-type]
