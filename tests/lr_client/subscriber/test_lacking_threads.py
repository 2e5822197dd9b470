"""Subscriptions in a process that can start no further thread."""

import pytest
from sqlalchemy import Engine

from lr_client.subscriber.sleepers import sleepers_of
from lr_client.subscriber.unpacker import Unpacker
from queues.thread_lack import NO_THREAD
from tests.lr_client.subscriber.applying import Apply, story
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.lr_client.subscriber.test_unpacker import block
from tests.threads_refused import no_further_thread
from tests.waiting import eventually

on_sqlite = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)


@on_sqlite
def test_entries_are_applied_without_the_thread_for_wakeups(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.tick([b"1"])
    with no_further_thread("lrq-wakeups"):
        subscription = follow(listener)
        eventually(lambda: story(sink) == ["1"])
        tokyo.tick([b"2"])
        eventually(lambda: story(sink) == ["1", "2"])
        assert subscription.reason.endswith("owned as generation 1")
        subscription.close()
    assert listener.errors == []


@on_sqlite
def test_a_queue_without_a_thread_is_followed_once_there_is_one(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    tokyo.tick([b"1"])
    with no_further_thread("lrq-LRQ_Recv"):
        follow(listener)
        eventually(lambda: len(listener.errors) > 3)
        assert len([each for each in caplog.records if "delivery failed" in each.getMessage()]) == 1
        assert sleepers_of(sink).all() == ()
    eventually(lambda: story(sink) == ["1"])
    assert NO_THREAD in caplog.text
    assert "Traceback" not in caplog.text
    assert "delivery succeeds again" not in caplog.text


@on_sqlite
def test_work_that_could_not_begin_releases_its_lease(
    sink: Engine, tokyo: Arrivals, listener: Apply, follow: Follow
) -> None:
    tokyo.tick([b"1"])
    reasons: set[str] = set()
    with no_further_thread("lrq-registry"):
        subscription = follow(listener)
        eventually(lambda: reasons.add(subscription.reason) or any(NO_THREAD in each for each in reasons))
    eventually(lambda: story(sink) == ["1"])
    assert not any("not released" in each for each in reasons)


def test_a_follower_unpacks_its_blocks_itself_without_a_thread() -> None:
    unpacker = Unpacker()
    with no_further_thread("lrq-unpacker"):
        unpacker.begin([block(1)])
    second = block(2)
    unpacker.begin([second])
    eventually(lambda: not second.is_packed)
    unpacker.close()
