"""A sink wakes idle subscribers, and pays for it only while they sleep."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from queue import SimpleQueue

import pytest
from sqlalchemy import Engine, text

from lr_client.subscriber.shard_owners import store_shards
from lr_client.subscriber.sleepers import Sleeper, sleepers_of
from lr_client.subscriber.subscription import Subscription
from queues.clock import SYSTEM_CLOCK
from queues.errors import StoreUnavailableError
from queues.names import client_name, site_id
from queues.receive.wakeup_watch import NotifyWatch
from queues.receive.wakeups import LOCK
from queues.wire import replication_pb2 as pb
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from sink import SinkWriter
from tests.forked import Popen
from tests.lr_client.subscriber.applying import Apply, story
from tests.lr_client.subscriber.sleeping_process import NEVER, sleeping
from tests.sink.frames import batch, request, session, tick
from tests.waiting import eventually

pytestmark = pytest.mark.processes

on_postgresql = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


class Source:
    """Sends ticks of one entry to a sink, each in a frame."""

    def __init__(self, engine: Engine) -> None:
        self._writer = SinkWriter(engine, site_id("lima"))
        self._by = session(source="tokyo", sink="lima")
        answer = self._writer.negotiate(request(self._by))
        self._by.stream = answer.stream
        self._frames: SimpleQueue[pb.Frame] = SimpleQueue()
        self._answers = self._writer.replicate(iter(self._frames.get, None))
        self.sent = 0

    def send(self, entries: int = 1) -> None:
        for _ in range(entries):
            seq = self.sent
            self._frames.put(batch(seq, tick(seq, seq + 1, [b"e%d" % (seq + 1)]), by=self._by))
            assert next(self._answers).received.seq == seq + 1
            self.sent += 1

    @property
    def story(self) -> list[str]:
        """The story of a listener that has applied all entries."""
        return [f"e{number}" for number in range(1, self.sent + 1)]


@pytest.fixture
def source(sink: Engine) -> Source:
    """Give a source whose queue is registered, and whose next frames need no locked marks."""
    made = Source(sink)
    made.send(2)
    return made


@pytest.fixture
def process(sink: Engine, source: Source) -> Iterator["subprocess.Popen[str]"]:
    """Give a subscriber that has applied all entries, in a process of its own."""
    command = [sys.executable, "-m", "tests.lr_client.subscriber.sleeping_process"]
    url = sink.url.render_as_string(hide_password=False)
    with Popen([*command, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout.readline() == "subscribed\n"
        eventually(lambda: story(sink) == source.story)
        yield made
        made.kill()


def hears(engine: Engine) -> bool:
    """Return whether a subscriber sleeps, so that a transaction of the sink must notify it."""
    with engine.begin() as connection:
        found = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid::bigint = ({LOCK})::bigint"
        return connection.execute(text(found)).scalar_one() > 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has datagrams without files")
def test_a_subscriber_in_another_process_is_woken(sink: Engine, source: Source, process: "subprocess.Popen[str]"):
    for _ in range(20):
        source.send()
        eventually(lambda: story(sink) == source.story)


def test_a_subscriber_in_the_process_of_the_sink_is_woken(sink: Engine, source: Source):
    with closing(sleeping(sink, Apply())):
        eventually(lambda: story(sink) == source.story)
        for _ in range(20):
            source.send()
            eventually(lambda: story(sink) == source.story)


@on_postgresql
def test_the_wakeup_comes_without_a_connection_for_it(sink: Engine, source: Source, monkeypatch: pytest.MonkeyPatch):
    """Behind a pooler the sink of the same process wakes the subscriber."""

    def fail(*_: object) -> object:
        raise StoreUnavailableError("a pooler stands before the database")

    monkeypatch.setattr("lr_client.subscriber.sleepers.open_watch", fail)
    with closing(sleeping(sink, Apply())):
        eventually(lambda: story(sink) == source.story)
        for _ in range(20):
            source.send()
            eventually(lambda: story(sink) == source.story)
    assert not hears(sink)


@on_postgresql
def test_a_killed_subscriber_is_notified_no_more(sink: Engine, source: Source, process: "subprocess.Popen[str]"):
    eventually(lambda: hears(sink))
    process.kill()
    eventually(lambda: not hears(sink))


@on_postgresql
def test_a_closed_subscription_is_notified_no_more(sink: Engine, source: Source):
    with closing(sleeping(sink, Apply())):
        eventually(lambda: hears(sink))
    eventually(lambda: not hears(sink))


@pytest.mark.nightly
@on_postgresql
def test_a_stopped_subscriber_is_notified_no_more(sink: Engine, source: Source, process: "subprocess.Popen[str]"):
    eventually(lambda: hears(sink))
    process.send_signal(signal.SIGSTOP)
    eventually(lambda: not hears(sink), interval=0.2)
    source.send()
    process.send_signal(signal.SIGCONT)
    eventually(lambda: story(sink) == source.story)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the pauses of all followers."""
    made: list[float] = []
    sleep = Sleeper.sleep

    def noted(sleeper: Sleeper, seconds: float) -> None:
        made.append(seconds)
        sleep(sleeper, seconds)

    monkeypatch.setattr(Sleeper, "sleep", noted)
    return made


@pytest.mark.parametrize("shards", [1, 2])
def test_a_subscriber_that_can_be_woken_polls_seldom(sink: Engine, source: Source, shards: int, pauses: list[float]):
    store_shards(sink, client_name("policy"), shards, "hash", is_told=True)
    with closing(sleeping(sink, Apply(), 0.01, NEVER)):
        eventually(lambda: NEVER in pauses)
        for _ in range(20):
            source.send()
            eventually(lambda: story(sink) == source.story)
    assert set(pauses) <= {0.01, NEVER}


def test_a_shard_polls_as_before_while_another_one_has_work(sink: Engine, source: Source, pauses: list[float]):
    goes_on = threading.Event()

    def stand(entry: RoutingTableEntryMsg) -> None:
        if entry.opaque_payload == b"e3":
            goes_on.wait(60)

    store_shards(sink, client_name("policy"), 2, "hash", is_told=True)
    with closing(sleeping(sink, Apply(stand), 0.01, NEVER)):
        eventually(lambda: NEVER in pauses)
        source.send()
        # The listener holds shard 0 now, so these are pauses of shard 1.
        eventually(lambda: len(pauses) > 9 and set(pauses[-9:]) == {0.01} and story(sink) == ["e1", "e2"])
        goes_on.set()
        eventually(lambda: story(sink) == source.story)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize("has_datagrams", [True, False])
def test_a_change_of_the_marks_that_no_wakeup_tells_is_found(
    sink: Engine, source: Source, has_datagrams: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("queues.receive.wakeups.tell", lambda *_: None)
    if not has_datagrams:
        monkeypatch.setattr("queues.datagrams.receiver", lambda _: None)
    with closing(sleeping(sink, Apply(), 0.01, NEVER)):
        for _ in range(5):
            source.send()
            eventually(lambda: story(sink) == source.story)


@on_postgresql
def test_a_lost_connection_for_wakeups_comes_back_and_the_subscriber_polls_meanwhile(sink: Engine, source: Source):
    with closing(sleeping(sink, Apply())):
        eventually(lambda: hears(sink))
        with sink.begin() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                    f" AND classid::bigint = ({LOCK})::bigint"
                )
            )
        eventually(lambda: not hears(sink))
        source.send()
        eventually(lambda: story(sink) == source.story)
        eventually(lambda: hears(sink))
        source.send()
        eventually(lambda: story(sink) == source.story)


@on_postgresql
def test_a_busy_subscriber_is_not_notified(sink: Engine, source: Source):
    with closing(sleepers_of(sink).sleeper(1, SYSTEM_CLOCK)) as sleeper:
        eventually(lambda: sleeper.sleep(0.01) or sleeper.is_notified)
        assert hears(sink)
        for _ in range(40):
            sleeper.delivered()
        assert not sleeper.is_notified
        eventually(lambda: not hears(sink))
        eventually(lambda: sleeper.sleep(0.01) or sleeper.is_notified)


@on_postgresql
def test_one_connection_serves_all_queues_of_a_process(sink: Engine, source: Source):
    with closing(sleeping(sink, Apply())), closing(sleeping(sink, Apply(client="users"))) as other:
        writer = SinkWriter(sink, site_id("lima"))
        for name in ("rome", "oslo"):
            by = session(sink="lima", source=name, client="users")
            by.stream = writer.negotiate(request(by)).stream
            next(writer.replicate(iter([batch(0, tick(0, 1, [b"x"]), by=by)])))
        locks = text(
            "SELECT count(*), count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory'"
            f" AND classid::bigint = ({LOCK})::bigint"
        )

        def found() -> tuple[int, int]:
            with sink.begin() as connection:
                return tuple(connection.execute(locks).one())

        eventually(lambda: found() == (3, 1))
        assert isinstance(other, Subscription)


@on_postgresql
def test_a_watch_that_stands_still_loses_its_locks(sink: Engine, source: Source):
    with closing(NotifyWatch(sink, silent_seconds=0.5)) as watch:
        assert watch.sleep(1)
        assert hears(sink)
        eventually(lambda: not hears(sink))
        with pytest.raises(StoreUnavailableError):
            watch.keep()


@on_postgresql
def test_a_sink_notifies_only_of_a_queue_whose_subscriber_sleeps(sink: Engine, source: Source):
    with closing(NotifyWatch(sink, silent_seconds=NEVER)) as watch:
        source.send()
        assert watch.woken() == set()
        assert watch.sleep(1)
        source.send()
        assert eventually(watch.woken) == {1}
        watch.end_sleep(1)
        source.send()
        watch.keep()
        assert watch.woken() == set()
        assert watch.sleep(2)
        source.send()
        watch.keep()
        assert watch.woken() == set()


@on_postgresql
def test_a_queue_can_be_slept_on_only_between_transactions_of_its_sink(sink: Engine, source: Source):
    with closing(NotifyWatch(sink, silent_seconds=NEVER)) as watch:
        with sink.begin() as connection:
            assert connection.execute(text(f"SELECT pg_try_advisory_xact_lock({LOCK}, 1)")).scalar_one()
            assert not watch.sleep(1)
        assert watch.sleep(1)
