"""An error with words that no database can store blocks or parks its entry like every other, and is seen."""

import logging

import pytest
from sqlalchemy import Engine, create_engine, text

from discovery.status import read_status
from lrq.cli.health import troubles
from queues.database.transactions import writing
from queues.errors import SnapshotFailedError
from queues.logs import FIELDS
from queues.receive.parked import parked, retry_parked
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from queues.words import LONGEST
from tests.lr_client.subscriber.applying import Apply, story
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually


class Unreadable(Exception):  # noqa: N818 - an application's error
    def __str__(self) -> str:
        raise RuntimeError("no words")


WORDS = {
    "NUL": (ValueError("bad \0 byte"), "ValueError: bad � byte"),
    "surrogate": (ValueError("bad \ud800 text"), "ValueError: bad � text"),
    "long": (ValueError("x" * 3_500_000), "ValueError: " + "x" * (LONGEST - 13) + "…"),
    "unreadable": (Unreadable(), "Unreadable: (its text cannot be read: RuntimeError)"),
}
EVERY_WORD = pytest.mark.parametrize(("error", "words"), WORDS.values(), ids=WORDS.keys())


class Failing(Apply):
    """Fails with *error* in every call, until `healed`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(self._fail)
        self.error = error
        self.healed = False

    def _fail(self, _: RoutingTableEntryMsg) -> None:
        if not self.healed:
            raise self.error


@EVERY_WORD
def test_a_blocked_queue_shows_its_growing_tries_and_is_a_trouble(
    sink: Engine, tokyo: Arrivals, follow: Follow, error: Exception, words: str
) -> None:
    listener = Failing(error)
    tokyo.tick([b"e1"])
    follow(listener)
    failure = eventually(lambda: (found := read_status(sink).receive_queues[0].failure) and found.tries >= 3 and found)
    assert failure.error == words
    assert any("is blocked" in trouble for trouble in troubles(read_status(sink)))
    listener.healed = True
    eventually(lambda: tokyo.left == 0)
    assert troubles(read_status(sink)) == []


@EVERY_WORD
def test_an_entry_is_parked_and_parked_again_after_a_retry(
    sink: Engine, tokyo: Arrivals, follow: Follow, error: Exception, words: str
) -> None:
    listener = Failing(error)
    tokyo.tick([b"e1"])
    follow(listener, on_failure="park", max_tries=2)
    eventually(lambda: tokyo.left == 0)
    [aside] = parked(sink)
    assert (aside.error, aside.tries, len(listener.calls)) == (words, 2, 2)
    retry_parked(sink, aside.id)
    eventually(lambda: len(listener.calls) == 3 and not parked(sink)[0].retrying)
    assert parked(sink)[0].error == words


def test_a_queue_that_cannot_be_read_is_a_trouble_until_nothing_is_left(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    listener = Apply()
    tokyo.snapshot("s1", [b"r1"])
    with writing(sink) as connection:
        connection.execute(text("UPDATE lrq_receive_snapshot_blocks SET block = :damaged"), {"damaged": b"x"})
    follow(listener)
    eventually(lambda: (found := read_status(sink).receive_queues[0].failure) and found.tries >= 2)
    assert any("is blocked" in trouble for trouble in troubles(read_status(sink)))
    assert isinstance(listener.errors[0][1], SnapshotFailedError)
    tokyo.snapshot("s2", [b"r2"])
    eventually(lambda: story(sink)[-1:] == ["<complete>"])
    eventually(lambda: troubles(read_status(sink)) == [])


def test_a_failure_is_forgotten_with_the_refused_entry(sink: Engine, tokyo: Arrivals, follow: Follow) -> None:
    tokyo.tick([b"e1"])
    follow(Failing(ValueError("cannot apply this")))
    eventually(lambda: read_status(sink).receive_queues[0].failure)
    tokyo.go_back(0)
    eventually(lambda: troubles(read_status(sink)) == [])


# --- the log ----------------------------------------------------------------------------------------------------


def traces(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the tracebacks of failed deliveries in the log."""
    shown = [getattr(record, FIELDS) for record in caplog.records if record.name == "lrq.subscriber"]
    return [fields["exception"] for fields in shown if "exception" in fields]


def test_the_first_failure_of_a_row_is_logged_with_its_traceback(
    tokyo: Arrivals, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Failing(ValueError("cannot apply this"))
    tokyo.tick([b"e1"])
    follow(listener)
    eventually(lambda: len(listener.errors) >= 4)
    listener.healed = True
    eventually(lambda: tokyo.left == 0)
    [trace] = traces(caplog)
    assert "in Failing._fail" in trace
    assert trace.endswith("\nValueError")
    assert len([record for record in caplog.records if "delivery failed" in record.getMessage()]) >= 4
    listener.healed = False
    tokyo.tick([b"e2"])
    eventually(lambda: len(traces(caplog)) == 2)


@pytest.mark.parametrize("where", ["call", "cause", "base", "on_error"])
def test_no_message_of_a_listener_s_error_is_logged_but_its_class_and_place(
    tokyo: Arrivals, follow: Follow, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    class Talkative(Failing):
        def _fail(self, entry: RoutingTableEntryMsg) -> None:
            secret = ValueError(f"cannot apply {entry.opaque_payload!r}")
            if where == "cause":
                raise KeyError(str(secret)) from secret
            raise KeyboardInterrupt(str(secret)) if where == "base" else secret

        def on_error(self, source_id: str, error: Exception) -> None:
            super().on_error(source_id, error)
            if where == "on_error":
                raise ValueError(f"cannot report {error}")

    caplog.set_level(logging.DEBUG)
    listener = Talkative(ValueError())
    tokyo.tick([b"a secret payload"])
    subscription = follow(listener)
    eventually(lambda: len(listener.errors) >= 2)
    subscription.close()
    told = [getattr(record, FIELDS) for record in caplog.records if record.name == "lrq.subscriber"]
    failed = [fields for fields in told if fields["event"] == "delivery failed"]
    names = {"cause": "KeyError", "base": "KeyboardInterrupt"}
    assert names.get(where, "ValueError") in failed[0]["error"]
    assert failed[0]["place"].startswith("test_foreign_words.py, line ")
    assert failed[0]["shown_by"] == "lrq park list"
    assert ("on_error raised" in [fields["event"] for fields in told]) is (where == "on_error")
    assert "secret payload" not in caplog.text
    assert "secret payload" not in repr(told)


def test_a_failing_statement_is_logged_without_its_parameters(
    sink: Engine, tokyo: Arrivals, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong(Apply):
        def process_updates_in_log_entry_sync(self, session, source_id, entries):
            session.execute(text("INSERT INTO nowhere VALUES (:payload)"), {"payload": entries[0].opaque_payload})
            return True

    caplog.set_level(logging.INFO, "lrq")
    tokyo.tick([b"a secret payload"])
    engine = create_engine(sink.url)
    subscription = follow(Wrong(), engine)
    eventually(lambda: traces(caplog))
    subscription.close()
    engine.dispose()
    assert ".Wrong.process_updates_in_log_entry_sync" in traces(caplog)[0]
    assert "nowhere" not in caplog.text, "the message of a driver may hold a value"
    assert "secret" not in caplog.text
