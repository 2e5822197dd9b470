"""An error that is no `Exception` fails one call. A thread that ends by itself gives up the lease, and is told."""

import asyncio
import logging
import threading

import pytest
from sqlalchemy import Engine, text

from queues.clock import SystemClock
from queues.database import leases
from queues.errors import ListenerError, ThreadEndedError
from queues.receive.consumer_marks import subscriber_lease
from queues.receive.parked import parked
from tests.lr_client.subscriber.applying import AfterEach, Apply, story
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually

pytestmark = pytest.mark.long


class _Foreign(BaseException):
    """An error of a library that ends its own threads, as gevent's."""


ERRORS = [asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, SystemExit, _Foreign]
EVERY_ERROR = pytest.mark.parametrize("kind", ERRORS)


# --- the listener -----------------------------------------------------------------------------------------------


class Ending(AfterEach):
    """Raises an error in its first calls of the method *where*, after its changes."""

    def __init__(self, where: str, kind: type[BaseException], times: float = 1, first: str = "") -> None:
        super().__init__()
        self.where = where
        self.kind = kind
        self.left = times
        self.first = first

    def after(self, kind, session):
        if kind == self.where and self.left > 0:
            self.left -= 1
            if self.first:
                session.execute(text(self.first))
            raise self.kind("enough")
        return True


@EVERY_ERROR
def test_a_listener_that_raises_no_exception_fails_one_call(
    sink: Engine, tokyo: Arrivals, follow: Follow, kind: type[BaseException]
) -> None:
    listener = Ending("log", kind)
    tokyo.tick([b"e1"])
    subscription = follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1"]
    [(source, error)] = listener.errors
    assert source == "tokyo"
    assert isinstance(error, ListenerError)
    assert isinstance(error.__cause__, kind)
    sentence = "called sys.exit(): stop the subscription" if kind is SystemExit else "the call counts as failed"
    assert sentence in str(error)
    assert subscription.active


@pytest.mark.parametrize("where", ["start", "rows", "complete"])
def test_a_callback_of_a_snapshot_that_raises_no_exception_is_repeated(
    sink: Engine, tokyo: Arrivals, follow: Follow, where: str
) -> None:
    tokyo.snapshot("s1", [b"r1", b"r2"])
    follow(Ending(where, asyncio.CancelledError))
    eventually(lambda: story(sink)[-1:] == ["<complete>"])
    assert story(sink) == ["<start>", "r1", "r2", "<complete>"]


def test_a_rollback_that_raises_no_exception_is_repeated(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tokyo.tick([b"e1"])
    tokyo.tick([b"e2"])
    follow(Ending("rollback", asyncio.CancelledError))
    eventually(lambda: tokyo.left == 0)
    tokyo.go_back(1)
    tokyo.tick([b"e3"])
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2", "<back to 1>", "e3"]


@EVERY_ERROR
def test_an_entry_that_raises_no_exception_is_parked(
    sink: Engine, tokyo: Arrivals, follow: Follow, kind: type[BaseException]
) -> None:
    tokyo.tick([b"e1"])
    follow(Ending("log", kind, times=3), on_failure="park", max_tries=3)
    eventually(lambda: tokyo.left == 0)
    [aside] = parked(sink)
    assert (aside.tries, aside.error.partition(":")[0]) == (3, "ListenerError")


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@EVERY_ERROR
def test_a_transaction_ended_before_such_an_error_loses_no_entry_and_is_told(
    sink: Engine, tokyo: Arrivals, follow: Follow, kind: type[BaseException], end: str
) -> None:
    listener = Ending("log", kind, first=end)
    tokyo.tick([b"e1"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == (["e1", "e1"] if end == "COMMIT" else ["e1"])
    [(_, error)] = listener.errors
    assert "the listener ended the transaction that lrq gave it" in str(error)
    assert f"the listener raised {kind.__name__}" in str(error)
    assert "enough" not in str(error), "the message stays in the cause"


@EVERY_ERROR
def test_an_on_error_that_raises_no_exception_stops_no_entry(
    sink: Engine, tokyo: Arrivals, follow: Follow, kind: type[BaseException]
) -> None:
    class Nervous(Ending):
        def on_error(self, source_id, error):
            super().on_error(source_id, error)
            raise kind

    listener = Nervous("log", ValueError, times=2)
    tokyo.tick([b"e1"])
    follow(listener)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1"]
    assert len(listener.errors) == 2


# --- threads of the subscription --------------------------------------------------------------------------------


class BrokenClock(SystemClock):
    """Raises an error, once, in the thread whose name begins with *thread*."""

    def __init__(self, thread: str, error: BaseException) -> None:
        self._thread = thread
        self._error: BaseException | None = error

    def wait(self, event: threading.Event, timeout: float) -> bool:
        if self._error is not None and threading.current_thread().name.startswith(self._thread):
            error, self._error = self._error, None
            raise error
        return super().wait(event, timeout)


@pytest.mark.parametrize("error", [KeyError("bug"), asyncio.CancelledError()], ids=lambda error: type(error).__name__)
def test_a_follower_that_ends_by_itself_is_told_and_another_subscriber_takes_over(
    sink: Engine, tokyo: Arrivals, follow: Follow, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "lrq.threads")
    tokyo.tick([b"e1"])
    listener = Apply()
    broken = follow(listener, clock=BrokenClock("lrq-LRQ_Recv", error), lease_ttl=60)
    eventually(lambda: listener.errors)
    eventually(lambda: not broken.active)
    follow(Apply())
    tokyo.tick([b"e2"])
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2"]
    [(source, told)] = listener.errors
    assert source == ""
    assert isinstance(told, ThreadEndedError)
    assert f"has ended by an error of its own: {type(error).__name__}" in str(told)
    # The reason comes after the release of the lease, which the other one may take at once.
    eventually(lambda: str(told) in broken.reason)
    assert "this process stands by again in 60 s" in broken.reason
    assert "in wait" in caplog.text


def test_a_lonely_subscription_whose_follower_has_ended_works_again_after_a_rest(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    listener = Apply()
    tokyo.tick([b"e1"])
    follow(listener, clock=BrokenClock("lrq-LRQ_Recv", KeyError("bug")), lease_ttl=0.3)
    eventually(lambda: listener.errors)
    tokyo.tick([b"e2"])
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2"]


def test_a_lease_thread_that_ends_by_itself_ends_the_delivery_and_releases_the_lease(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    listener = Apply()
    broken = follow(listener, clock=BrokenClock("lrq-owner", KeyError("bug")), lease_ttl=60)
    eventually(lambda: listener.errors)
    eventually(lambda: leases.holder(sink, subscriber_lease("policy")).expired)
    assert not broken.active
    ended = "the thread lrq-owner-subscriber/policy has ended by an error of its own: KeyError: 'bug'"
    eventually(lambda: ended in broken.reason)
    tokyo.tick([b"e1"])
    follow(Apply())
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1"]
