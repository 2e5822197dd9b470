"""A snapshot reaches its site while it is being built, and no row of a failed attempt is ever delivered."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lrq.cli.health import troubles
from queues.wire.replication_pb2 import Ack, Frame
from tests.system.faulty import PassingSink
from tests.system.world import Messages, World, in_log_sync, sessions_of
from tests.waiting import eventually

#: More than two batches of a writer: the rows of the first two are stored at `HELD`.
ROWS, STORED, HELD = 4_500, 4_000, 4_200


def rows_of(context: Any, words: str = "row") -> list[bytes]:
    return [f"{words} {number} for {context.destination}".encode() for number in range(ROWS)]


def staged(world: World, site: str = "tokyo") -> int:
    """Return the number of staged rows."""
    found = world.execute(site, "SELECT staging_rows FROM lrq_receive_marks")
    return int(found[0][0]) if found else 0


class Failing:
    """A provider whose first attempts fail after rows of theirs have arrived, each with other rows.

    The last attempt has *rows* rows.
    """

    def __init__(self, failures: int, rows: int = ROWS) -> None:
        self.failures = failures
        self.rows = rows
        self.attempts = 0
        self.fails = threading.Event()

    def provide_full_state_data(self, context: Any) -> None:
        self.attempts += 1
        for number, payload in enumerate(rows_of(context, f"attempt {self.attempts}")):
            if number == HELD and self.attempts <= self.failures:
                assert self.fails.wait(60)
                self.fails.clear()
                raise RuntimeError("the table is gone")
            if number < self.rows or self.attempts <= self.failures:
                context.transmit(payload)
        context.mark_completed()

    def cancel(self, context: Any) -> None:
        self.fails.set()


class CountingSink(PassingSink):
    """Counts the rows that arrive."""

    rows = 0

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        return super().replicate(self._counted(frames))

    def _counted(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            self.rows += sum(block.rows for block in frame.snapshot_chunk.blocks)
            yield frame


@pytest.fixture
def held(world: World) -> Iterator[Messages]:
    """A provider in the middle of a snapshot for tokyo, whose stored rows have arrived there."""
    provider = Messages(rows_of, hold_after=HELD)
    world.provide("paris", provider)
    world.begun("paris", "tokyo")
    yield provider
    provider.go_on.set()


def delivered(world: World, recorder: Any, expected: list[bytes]) -> None:
    """Check that tokyo's subscriber gets exactly the *expected* rows, and then the log."""
    eventually(lambda: recorder.kinds("paris") == ["start 1", f"snapshot {ROWS}", "complete 1"])
    assert recorder.snapshot("paris") == expected
    world.transmit("paris", b"later", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"later"])


class Context:
    destination = "tokyo"


def test_the_stored_rows_arrive_before_the_provider_has_ended(world: World, held: Messages) -> None:
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo")
    eventually(lambda: staged(world) == STORED)
    assert [each["state"] for each in paris.status()["snapshots"]] == ["building"]
    assert recorder.kinds("paris") == []
    held.go_on.set()
    delivered(world, recorder, rows_of(Context))
    in_log_sync(paris, "tokyo")


def test_a_source_that_starts_again_during_the_build_sends_each_row_once(world: World, held: Messages) -> None:
    recorder = world.subscribe("tokyo")
    sink = world.behind("tokyo", CountingSink)
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"})
    eventually(lambda: staged(world) == STORED)
    paris.stop()
    world.server("paris", listen=[], peers={"tokyo": "local:tokyo"})
    held.go_on.set()
    delivered(world, recorder, rows_of(Context))
    assert sink.rows == ROWS


@pytest.mark.parametrize("failures", [1, 2])
def test_the_rows_of_failed_attempts_are_never_delivered(world: World, failures: int) -> None:
    provider = Failing(failures)
    recorder = world.subscribe("tokyo")
    world.provide("paris", provider)
    world.begun("paris", "tokyo")
    world.link("paris", "tokyo")
    for number in range(failures):
        eventually(lambda number=number: provider.attempts == number + 1 and staged(world) == STORED)
        provider.fails.set()
        eventually(lambda number=number: provider.attempts == number + 2)
    delivered(world, recorder, rows_of(Context, f"attempt {failures + 1}"))


@pytest.mark.parametrize("transport", ["local", "tcp"])
def test_an_attempt_that_fails_while_the_source_is_down_leaves_no_row(world: World, transport: str) -> None:
    provider = Failing(1)
    recorder = world.subscribe("tokyo")
    world.provide("paris", provider)
    world.begun("paris", "tokyo")
    tokyo = world.server("tokyo")
    peers = {"tokyo": "local:tokyo" if transport == "local" else tokyo.endpoints[0]}
    paris = world.server("paris", listen=[], peers=peers)
    eventually(lambda: staged(world) == STORED)
    paris.stop()
    provider.fails.set()
    eventually(lambda: world.execute("paris", "SELECT state FROM lrq_snapshots") == [("ready",)])
    world.server("paris", listen=[], peers=peers)
    delivered(world, recorder, rows_of(Context, "attempt 2"))


def test_a_second_attempt_with_fewer_rows_than_have_arrived_is_sent_and_not_asked_for_again(world: World) -> None:
    provider = Failing(1, rows=10)
    recorder = world.subscribe("tokyo")
    world.provide("paris", provider)
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo")
    eventually(lambda: staged(world) == STORED)
    paris.stop()
    provider.fails.set()
    eventually(lambda: world.execute("paris", "SELECT state FROM lrq_snapshots") == [("ready",)])
    world.server("paris", listen=[], peers={"tokyo": "local:tokyo"})
    eventually(lambda: recorder.kinds("paris") == ["start 1", "snapshot 10", "complete 1"])
    assert len(world.execute("paris", "SELECT sync_id FROM lrq_snapshots")) == 1


def test_a_connection_that_is_lost_during_the_build_goes_on_where_it_was(world: World, held: Messages) -> None:
    recorder = world.subscribe("tokyo")
    sink = world.behind("tokyo", CountingSink)
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"})
    eventually(lambda: staged(world) == STORED)
    for session in paris._source.supervisor.sessions():  # type: ignore[union-attr]
        session.reconnect("a test breaks the connection")
    eventually(lambda: sessions_of(paris)["tokyo"]["state"] == "snapshot sync")
    assert staged(world) == STORED
    held.go_on.set()
    delivered(world, recorder, rows_of(Context))
    assert sink.rows == ROWS


def test_a_provider_that_dies_after_rows_have_arrived_is_missed_as_any_other(
    world: World, held: Messages, caplog: pytest.LogCaptureFixture
) -> None:
    paris = world.link("paris", "tokyo")
    eventually(lambda: staged(world) == STORED)
    world.execute("paris", "UPDATE lrq_snapshot_providers SET seen_us = 1")
    world.execute("paris", "UPDATE lrq_snapshots SET updated_us = 1")
    eventually(lambda: "no provider" in caplog.text)
    assert any("no provider" in each for each in troubles(paris.site_status()))
