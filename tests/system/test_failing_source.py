"""A source whose own database fails says so, does not blame the sink, and recovers by itself."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from lr_server import LogReplicationServer
from queues.wire.replication_pb2 import Ack, Frame, Refusal
from sink.port import Sink
from tests.lr_client.snapshot.providing import damage
from tests.system.faulty import PassingSink
from tests.system.world import Messages, World, in_log_sync, sessions_of
from tests.waiting import eventually


@contextmanager
def without(world: World, site: str, table: str) -> Iterator[None]:
    """Hide one table of a site."""
    world.execute(site, f"ALTER TABLE {table} RENAME TO hidden")
    yield
    world.execute(site, f"ALTER TABLE hidden RENAME TO {table}")


def names_its_own_database(server: LogReplicationServer, table: str) -> bool:
    session = sessions_of(server).get("tokyo", {})
    told = session.get("reason", "")
    return session.get("state") == "backing off" and told.startswith("this site: ") and table in told


def test_a_negotiation_that_cannot_read_the_source_names_the_source(world: World) -> None:
    world.begun("paris", "tokyo")
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, clients=["policy"], initial_sync="log")
    eventually(lambda: sessions_of(paris).get("tokyo", {}).get("state") == "backing off")
    recorder = world.subscribe("tokyo")
    with without(world, "paris", "lrq_branches"):
        world.server("tokyo", listen=[])
        eventually(lambda: names_its_own_database(paris, "lrq_branches"))
    in_log_sync(paris, "tokyo")
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"after"])


@pytest.mark.parametrize("transport", ["local", "tcp"])
def test_a_snapshot_that_cannot_be_read_names_the_source(world: World, transport: str) -> None:
    recorder = world.subscribe("tokyo")
    world.provide("paris", Messages(lambda _: [b"a", b"b"]))
    world.request_snapshots("paris", "tokyo")
    eventually(lambda: world.execute("paris", "SELECT state FROM lrq_snapshots") == [("ready",)])
    tokyo = world.server("tokyo")
    peer = "local:tokyo" if transport == "local" else tokyo.endpoints[0]
    with without(world, "paris", "lrq_snapshot_blocks"):
        paris = world.server("paris", listen=[], peers={"tokyo": peer})
        eventually(lambda: names_its_own_database(paris, "lrq_snapshot_blocks"))
    eventually(lambda: recorder.kinds("paris") == ["start 1", "snapshot 2", "complete 1"])


def test_a_snapshot_that_is_damaged_where_it_is_stored_is_replaced(world: World) -> None:
    recorder = world.subscribe("tokyo")
    world.provide("paris", Messages(lambda _: [b"a", b"b"]))
    world.request_snapshots("paris", "tokyo")
    eventually(lambda: world.execute("paris", "SELECT state FROM lrq_snapshots") == [("ready",)])
    damage(world.site("paris"))
    world.server("tokyo", listen=[])
    world.server("paris", listen=[], peers={"tokyo": "local:tokyo"})
    eventually(lambda: recorder.kinds("paris") == ["start 1", "snapshot 2", "complete 1"])
    reasons = world.execute("paris", "SELECT reason FROM lrq_snapshots WHERE state = 'applied'")
    assert "are damaged where they are stored" in reasons[0][0]


class RefusingOnce(PassingSink):
    """Calls *before* at the first end of a snapshot, and refuses that as damaged."""

    def __init__(self, sink: Sink, before: Callable[[], object]) -> None:
        super().__init__(sink)
        self._before = before
        self.has_refused = False

    def replicate(self, frames: Iterator[Frame]) -> Iterator[Ack]:
        yield from self._sink.replicate(self._until_refused(frames))
        if self.has_refused:
            yield Ack(refusal=Refusal(kind=Refusal.CORRUPT, reason="damaged"))

    def _until_refused(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            if frame.HasField("snapshot_end") and not self.has_refused:
                self.has_refused = True
                self._before()
                return
            yield frame


def test_a_damaged_snapshot_that_cannot_be_discarded_now_ends_no_other_work(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = world.subscribe("tokyo")
    world.provide("paris", Messages(lambda _: [b"a", b"b"]))
    world.request_snapshots("paris", "tokyo")
    eventually(lambda: world.execute("paris", "SELECT state FROM lrq_snapshots") == [("ready",)])
    with ExitStack() as hidden:
        table = without(world, "paris", "lrq_snapshots")
        sink = world.behind("tokyo", lambda whole: RefusingOnce(whole, lambda: hidden.enter_context(table)))
        paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"})
        eventually(lambda: sink.has_refused)
        eventually(lambda: [each.standing.words.name for each in paris._source.supervisor.sessions()] == ["failed"])
    eventually(lambda: recorder.kinds("paris") == ["start 1", "snapshot 2", "complete 1"])
    assert "has ended by an error" not in caplog.text
