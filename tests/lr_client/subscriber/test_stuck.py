"""An entry whose call the database ends again and again is shown, can be parked, and holds no retry's queue."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session

from discovery.status import read_status
from lr_client.subscriber import follower
from lr_client.subscriber.park_now import park_now
from queues.names import client_name, site_id
from queues.receive.blocked import blocked
from queues.receive.parked import parked, retry_parked
from tests.lr_client.subscriber.applying import Apply, applied, payloads, story
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually

POLICY, TOKYO = client_name("policy"), site_id("tokyo")


class Slow(Apply):
    """Lets the database end the call for some payloads: by a time-out, or by a lock of the same process."""

    def __init__(self, other: Engine, *slow: bytes) -> None:
        super().__init__()
        self.other = other
        self.slow = slow

    def process_updates_in_log_entry_sync(self, session: Session, source_id, entries):
        if any(entry.opaque_payload in self.slow for entry in entries):
            if self.other.dialect.name == "sqlite":
                with self.other.begin() as connection:
                    connection.execute(applied.delete())
            session.execute(text("SET LOCAL statement_timeout = '1ms'"))
            session.execute(text("SELECT pg_sleep(600)"))
        return super().process_updates_in_log_entry_sync(session, source_id, entries)


@pytest.fixture
def slow(sink: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """Give a listener that cannot apply `e3`; a step is soon stuck."""
    monkeypatch.setattr(follower, "STUCK_SECONDS", 0.1)
    waits = {"timeout": 0} if sink.dialect.name == "sqlite" else {}
    other = create_engine(sink.url, connect_args=waits)
    yield Slow(other, b"e3")
    other.dispose()


@pytest.mark.parametrize("shards", [None, 2])
def test_the_entry_is_shown_and_an_operator_may_park_it(
    sink: Engine, tokyo: Arrivals, follow: Follow, slow: Slow, shards: int | None
) -> None:
    tokyo.keyed(*[[("a", payload)] for payload in payloads("e", 5)])
    follow(slow, on_failure="park", max_tries=1, **({} if shards is None else {"shards": shards}))
    found = eventually(lambda: [each for each in blocked(sink) if each.failure.seq == 3])
    assert "the database cannot be used just now" in found[0].failure.error
    assert found[0].failure.place.startswith("test_stuck.py")
    assert read_status(sink).receive_queues[0].failure is not None or shards
    assert (story(sink), parked(sink)) == (["e1", "e2"], [])
    park_now(sink, POLICY, TOKYO, person="ada", shard=found[0].shard)
    eventually(lambda: story(sink) == ["e1", "e2", "e4", "e5"])
    eventually(lambda: not blocked(sink))


def test_a_retry_that_the_database_ends_lets_the_other_entries_pass(
    sink: Engine, tokyo: Arrivals, follow: Follow, slow: Slow
) -> None:
    tokyo.tick([b"e3"])
    follow(slow)
    eventually(lambda: blocked(sink))
    park_now(sink, POLICY, TOKYO, person="ada")
    [letter] = parked(sink)
    retry_parked(sink, letter.id)
    tokyo.tick([b"e4"])
    eventually(lambda: story(sink) == ["e4"])
    eventually(lambda: [each.retrying for each in parked(sink)] == [False])
    slow.slow = ()
    retry_parked(sink, letter.id)
    eventually(lambda: story(sink) == ["e4", "e3"])


def test_the_entry_is_shown_no_more_once_the_database_lets_it_pass(
    sink: Engine, tokyo: Arrivals, follow: Follow, slow: Slow
) -> None:
    tokyo.tick([b"e3"])
    follow(slow)
    eventually(lambda: blocked(sink))
    slow.slow = ()
    eventually(lambda: story(sink) == ["e3"])
    eventually(lambda: not blocked(sink))
