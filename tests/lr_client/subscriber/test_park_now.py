"""`park_now` puts the entry that blocks a queue aside, while its subscriber works or not."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from sqlalchemy import Engine, select

from lr_client.subscriber.park_now import park_now
from queues.database import actions, tables
from queues.database.transactions import reading
from queues.errors import SetupError, StoreUnavailableError, UsageError
from queues.names import client_name, site_id
from queues.receive import failures
from queues.receive.blocked import blocked, blocked_one
from queues.receive.failures import Failure
from queues.receive.parked import parked, parked_trace, retry_parked
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.forked import Popen
from tests.left_out import rows_left_out
from tests.lr_client.subscriber.applying import Apply, payloads, story, texts
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually

POLICY, TOKYO = client_name("policy"), site_id("tokyo")


class Poison:
    """Refuses some payloads until `cured` is set."""

    def __init__(self, *refused: bytes) -> None:
        self.refused = refused
        self.cured = False

    def __call__(self, entry: RoutingTableEntryMsg) -> None:
        if entry.opaque_payload in self.refused and not self.cured:
            raise ValueError(f"poison: {entry.opaque_payload!r}")


def now(engine: Engine, **options):
    return park_now(engine, POLICY, TOKYO, person="ada", **options)


def is_blocked(engine: Engine) -> bool:
    return bool(blocked(engine))


def test_only_the_entry_at_the_given_number_is_parked(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tokyo.tick(*[[payload] for payload in payloads("e", 3)])
    follow(Apply(Poison(b"e2")))
    eventually(lambda: is_blocked(sink))
    with pytest.raises(UsageError, match="the entry at 1 of policy from tokyo blocks no more, but the one at 2 does"):
        now(sink, seq=1)
    assert now(sink, seq=2).sequence == 2


def test_an_entry_that_the_table_of_parked_ones_would_lose_stays(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tokyo.tick([b"e1"])
    follow(Apply(Poison(b"e1")))
    eventually(lambda: is_blocked(sink))
    with rows_left_out(sink, "lrq_parked_entries"), pytest.raises(SetupError, match="rows out of lrq_parked_entries"):
        now(sink)
    assert is_blocked(sink)
    assert now(sink).sequence == 1


def test_later_entries_go_on_and_a_retry_applies_the_parked_one(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    poison = Poison(b"e3")
    tokyo.tick(*[[payload] for payload in payloads("e", 5)])
    follow(Apply(poison))
    eventually(lambda: is_blocked(sink))
    done = now(sink)
    assert (done.sequence, done.entries, done.error_class) == (3, 1, "ValueError")
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2", "e4", "e5"]
    [letter] = parked(sink)
    assert (letter.sequence, letter.error_class, letter.place.split(",")[0]) == (3, "ValueError", "test_park_now.py")
    assert 0 < letter.first_us <= letter.last_us
    assert "in Poison.__call__" in parked_trace(sink, letter.id)
    assert [each[1:] for each in actions.newest(sink)] == [("ada", "park now", done.words())]
    poison.cured = True
    retry_parked(sink, letter.id)
    eventually(lambda: parked(sink) == [])
    assert story(sink) == ["e1", "e2", "e4", "e5", "e3"]
    assert not is_blocked(sink)


def test_an_entry_is_parked_while_no_subscriber_works(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tokyo.tick([b"e1", b"e1b"], [b"e2"])
    subscription = follow(Apply(Poison(b"e1")))
    eventually(lambda: is_blocked(sink))
    subscription.close()
    assert now(sink).entries == 2
    assert not is_blocked(sink)
    follow(Apply())
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e2"]


def test_a_row_of_a_snapshot_is_parked(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tokyo.snapshot("s1", payloads("r", 4))
    follow(Apply(Poison(b"r2")))
    eventually(lambda: is_blocked(sink))
    now(sink)
    eventually(lambda: story(sink) == ["<start>", "r1", "r3", "r4", "<complete>"])
    assert [each.kind for each in parked(sink)] == ["snapshot"]


@pytest.mark.parametrize("shards", [2, 3])
def test_the_entry_that_blocks_a_shard_is_parked(sink: Engine, tokyo: Arrivals, follow: Follow, shards: int) -> None:
    follow(Apply(Poison(b"a2", b"b2", b"c2", b"d2")), shards=shards)
    for number in range(1, 4):
        tokyo.keyed(*[[(key, f"{key}{number}".encode())] for key in "abcd"])
    while len(parked(sink)) < 4:
        found = eventually(lambda: blocked(sink))
        # A call that failed while its entry was parked is recorded for a moment.
        with suppress(UsageError, StoreUnavailableError):
            assert now(sink, shard=found[0].shard).entries == 1
    eventually(lambda: tokyo.left == 0)
    assert sorted(story(sink)) == sorted(f"{key}{number}" for key in "abcd" for number in (1, 3))
    assert len(parked(sink)) == 4


def test_of_several_blocked_shards_one_must_be_chosen(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    refused = [f"{key}1".encode() for key in "abcdefgh"]
    follow(Apply(Poison(*refused)), shards=2)
    tokyo.keyed(*[[(key, f"{key}1".encode())] for key in "abcdefgh"])
    eventually(lambda: len(blocked(sink)) == 2)
    with pytest.raises(UsageError, match="several shards of policy from tokyo are blocked: choose one of 0, 1"):
        now(sink)
    assert blocked_one(sink, POLICY, TOKYO, 1).shard == 1


def test_a_queue_that_goes_on_is_not_touched(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tokyo.tick(payloads("e", 3))
    follow(Apply())
    eventually(lambda: tokyo.left == 0)
    with pytest.raises(UsageError, match="no entry blocks policy from tokyo"):
        now(sink)
    with pytest.raises(UsageError, match="no entry of client policy has come from oslo"):
        park_now(sink, POLICY, site_id("oslo"), person="ada")
    assert actions.newest(sink) == []


def test_a_failure_of_another_entry_parks_nothing(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    """The subscriber has gone on between the look at the failure and the look at the next entry."""
    tokyo.tick([b"e1"], [b"e2"])
    subscription = follow(Apply(Poison(b"e2")))
    eventually(lambda: is_blocked(sink))
    subscription.close()
    with reading(sink) as connection:
        queue_id = tokyo.queue_id(connection)
    failures.record(sink, queue_id, Failure(1, 4, "ValueError: older"))
    with pytest.raises(StoreUnavailableError, match="went on at the same moment"):
        now(sink)
    assert parked(sink) == []


def test_a_step_without_entries_cannot_be_parked(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    class Hesitant(Apply):
        def on_snapshot_sync_start(self, session, source_id):
            raise ValueError("not now")

    tokyo.snapshot("s1", payloads("r", 2))
    follow(Hesitant())
    eventually(lambda: is_blocked(sink))
    with pytest.raises(UsageError, match="no entry blocks policy from tokyo, but snapshot start: mend the listener"):
        now(sink)


def test_a_call_that_goes_on_delays_the_action(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    if sink.dialect.name == "sqlite":
        pytest.skip("on SQLite the wait for the write lock ends it, after 60 seconds")
    inside, go_on, calls = threading.Event(), threading.Event(), []

    def linger(_: RoutingTableEntryMsg) -> None:
        calls.append(1)
        if len(calls) > 1:
            inside.set()
            go_on.wait()
        raise ValueError("no")

    tokyo.tick([b"e1"])
    follow(Apply(linger))
    try:
        eventually(inside.is_set)
        eventually(lambda: is_blocked(sink))
        with pytest.raises(StoreUnavailableError, match="has worked on the entry of policy from tokyo for 1 s"):
            now(sink, seconds=1)
        assert parked(sink) == []
    finally:
        go_on.set()


@pytest.fixture
def blocking_process(sink: Engine) -> Iterator[Callable[[], "subprocess.Popen[str]"]]:
    made: list[subprocess.Popen[str]] = []

    def begin() -> "subprocess.Popen[str]":
        url = sink.url.render_as_string(hide_password=False)
        command = [sys.executable, "-m", "tests.lr_client.subscriber.blocking_process", url]
        made.append(Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert made[-1].stdout is not None
        assert made[-1].stdout.readline() == "subscribed\n"
        return made[-1]

    yield begin
    for process in made:
        process.kill()
        process.communicate()


@pytest.mark.processes
def test_a_subscriber_in_another_process_loses_no_entry_and_applies_none_twice(
    sink: Engine, tokyo: Arrivals, blocking_process: Callable[[], "subprocess.Popen[str]"]
) -> None:
    """Every fifth entry blocks; operators park it while the process tries again and again."""
    count = 25
    tokyo.tick(*[[payload] for payload in payloads("e", count)])
    blocking_process()
    done: list[int] = []

    def act() -> None:
        while tokyo.left:
            try:
                done.append(now(sink).sequence)
            except (UsageError, StoreUnavailableError):
                continue

    operators = [threading.Thread(target=act) for _ in range(2)]
    for each in operators:
        each.start()
    for each in operators:
        each.join()
    fifth = list(range(5, count + 1, 5))
    assert story(sink) == [text for number, text in enumerate(texts("e", count), 1) if number not in fifth]
    assert sorted(each.sequence for each in parked(sink)) == fifth
    assert sorted(done) == fifth
    with reading(sink) as connection:
        applied = connection.execute(select(tables.consumers.consumers.c.applied_total)).scalar_one()
    assert applied == count
