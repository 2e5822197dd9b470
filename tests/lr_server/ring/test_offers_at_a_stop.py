"""Each offer gets an outcome, also while the member stops, or while its store cannot be opened."""

from concurrent.futures import CancelledError

import pytest

from lr_server.protocol.agreement.effects import Decline
from lr_server.ring.runner import TokenRunner
from lr_server.ring.store import TokenStore
from queues.errors import StoreUnavailableError
from tests.lr_server.ring.stores import transaction


def no_store() -> TokenStore:
    raise StoreUnavailableError("the disk is away")


def test_a_stop_declines_the_offers_that_still_wait():
    runner = TokenRunner(no_store, 0, {})
    runner.start()
    waiting = [runner.offer([transaction(b"one")]) for _ in range(3)]
    runner.stop()
    outcomes = [each.result(60) for each in waiting]
    assert [type(each) for each in outcomes] == [Decline] * 3


def test_a_stop_leaves_a_cancelled_offer_alone():
    runner = TokenRunner(no_store, 0, {})
    cancelled, waiting = runner.offer([transaction(b"one")]), runner.offer([transaction(b"two")])
    assert cancelled.cancel()
    runner.stop()
    assert isinstance(waiting.result(60), Decline)
    with pytest.raises(CancelledError):
        cancelled.result(60)
