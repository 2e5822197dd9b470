"""A trigger of others leaves out a change of a subscriber's marks: that is told, and nothing is applied twice."""

import threading

import pytest
from sqlalchemy import Engine, text

from lr_client.subscriber import follower
from lr_client.subscriber.delivery import Superseded
from lr_client.subscriber.steps import next_step
from queues.database.transactions import reading
from queues.errors import StoreUnavailableError
from queues.receive.blocked import blocked
from queues.receive.kept_blocks import KeptBlocks
from tests.left_out import rows_left_out
from tests.lr_client.subscriber.applying import Apply, payloads, story, texts
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.lr_client.subscriber.test_takeover import LIMITS, deliveries
from tests.waiting import eventually

#: Conditions of the change before the listener's call, and of the change after the call.
BEFORE, AFTER = "NEW.version = OLD.version", "NEW.version > OLD.version"


@pytest.mark.parametrize("when", [BEFORE, AFTER], ids=["before the call", "after the call"])
@pytest.mark.parametrize(("table", "options"), [("lrq_consumers", {}), ("lrq_shard_marks", {"shards": 2})])
def test_a_change_of_marks_that_is_left_out_is_told(
    sink: Engine, tokyo: Arrivals, follow: Follow, monkeypatch: pytest.MonkeyPatch, table: str, options: dict[str, int],
    when: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(follower, "STUCK_SECONDS", 0.1)
    tokyo.keyed([("a", b"e1")], [("a", b"e2")])
    listener = Apply()
    follow(listener, **options)
    eventually(lambda: tokyo.left == 0)
    said = f"left rows out of {table}: drop it, or let the trigger fire AFTER"
    with rows_left_out(sink, table, when, on="UPDATE"):
        tokyo.keyed([("a", b"e3")])
        eventually(lambda: any(said in str(error) for _, error in listener.errors))
        eventually(lambda: any(said in each.failure.error for each in blocked(sink)))
        assert {type(error) for _, error in listener.errors} == {StoreUnavailableError}
        assert (story(sink), tokyo.left) == (["e1", "e2"], 1)
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1", "e2", "e3"]
    eventually(lambda: not blocked(sink))


@pytest.mark.parametrize("options", [{}, {"shards": 2}], ids=["whole", "shards"])
def test_a_removal_of_entries_that_is_left_out_is_told(
    sink: Engine, tokyo: Arrivals, follow: Follow, monkeypatch: pytest.MonkeyPatch, options: dict[str, int]
) -> None:
    monkeypatch.setattr(follower, "STUCK_SECONDS", 0.1)
    listener = Apply()
    said = "left rows out of lrq_receive_blocks: drop it, or let the trigger fire AFTER"
    with rows_left_out(sink, "lrq_receive_blocks", on="DELETE"):
        tokyo.keyed([("a", b"e1")])
        follow(listener, **options)
        eventually(lambda: any(said in str(error) for _, error in listener.errors))
        assert {type(error) for _, error in listener.errors} == {StoreUnavailableError}
    eventually(lambda: tokyo.left == 0)
    assert story(sink) == ["e1"]


def test_a_removal_of_rows_of_a_snapshot_that_is_left_out_is_told(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    listener = Apply()
    tokyo.snapshot("s1", payloads("r", 2))
    with rows_left_out(sink, "lrq_receive_snapshot_blocks", on="DELETE"):
        follow(listener)
        said = "left rows out of lrq_receive_snapshot_blocks"
        eventually(lambda: any(said in str(error) for _, error in listener.errors))
        assert story(sink) == ["<start>"]
    eventually(lambda: len(story(sink)) == 4)
    assert story(sink) == ["<start>", *texts("r", 2), "<complete>"]


def test_a_change_of_marks_in_a_snapshot_that_is_left_out_is_told(
    sink: Engine, tokyo: Arrivals, follow: Follow
) -> None:
    tokyo.snapshot("s1", payloads("r", 2))
    listener = Apply()
    with rows_left_out(sink, "lrq_consumers", AFTER, on="UPDATE"):
        follow(listener)
        eventually(lambda: any("left rows out of lrq_consumers" in str(error) for _, error in listener.errors))
        assert story(sink) == []
    eventually(lambda: len(story(sink)) == 4)
    assert story(sink) == ["<start>", *texts("r", 2), "<complete>"]


def is_waiting(engine: Engine) -> bool:
    """Return whether a statement waits for a lock, as a transaction of its own sees it."""
    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with engine.connect() as connection:
        return connection.execute(text(waits)).scalar_one() > 0


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_claim_that_has_waited_for_a_move_is_not_told_as_left_out(
    sink: Engine, tokyo: Arrivals, listener: Apply
) -> None:
    tokyo.tick([b"e1"])
    _, current = deliveries(sink, listener)
    with reading(sink) as connection:
        step = next_step(connection, tokyo.queue_id(connection), LIMITS, KeptBlocks(), one=False)
    ends: list[BaseException] = []

    def carry_out() -> None:
        try:
            current.carry_out(step)
        except (Superseded, StoreUnavailableError) as error:
            ends.append(error)

    waiting = threading.Thread(target=carry_out)
    with sink.begin() as connection:
        connection.execute(text("UPDATE lrq_consumers SET version = version + 1"))
        waiting.start()
        eventually(lambda: is_waiting(sink))
    waiting.join()
    assert [type(each) for each in ends] == [Superseded]
    assert story(sink) == []
