"""The standings of the sessions in the database: each change is saved, and a quiet session costs no look."""

import threading
from typing import Any

import pytest

from lr_server.session import table as session_table
from queues.errors import StoreUnavailableError
from queues.states import SessionState
from queues.wire import replication_pb2 as pb
from sink.port import Sink
from tests.system.faulty import PassingSink
from tests.system.world import World
from tests.waiting import eventually

#: No heartbeat comes within a test, so a missed change stays missed.
_SILENT = {"heartbeat_seconds": 600.0, "stall_seconds": 900.0, "initial_sync": "log"}
_SAVED = "SELECT state, acked_seq FROM lrq_sessions"


def test_a_change_that_the_database_refused_is_saved_later_although_nothing_changes_any_more(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    paris = world.link("paris", "tokyo", **_SILENT)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: world.execute("paris", _SAVED) == [(SessionState.LOG_ENTRY_SYNC, 1)])
    refused = list[str]()

    def refuse(*_: Any) -> Any:
        refused.append("")
        raise StoreUnavailableError("the disk is full")

    with monkeypatch.context() as outage:
        outage.setattr(session_table, "save", refuse)
        world.transmit("paris", b"2", to=["tokyo"])
        eventually(lambda: refused)
        # The facts of the session change no more after the acknowledgement.
        eventually(lambda: paris._source.supervisor.sessions()[0].standing.acked.seq == 2)  # type: ignore[union-attr]
        before = len(refused)
        eventually(lambda: len(refused) > before + 2)
    eventually(lambda: world.execute("paris", _SAVED) == [(SessionState.LOG_ENTRY_SYNC, 2)])


def test_a_broken_connection_is_saved(world: World):
    tokyo = world.server("tokyo")
    peers = {"tokyo": tokyo.endpoints[0]}
    world.server("paris", listen=[], peers=peers, **_SILENT)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: world.execute("paris", _SAVED) == [(SessionState.LOG_ENTRY_SYNC, 1)])
    tokyo.stop()
    eventually(lambda: world.execute("paris", _SAVED)[0].state != SessionState.LOG_ENTRY_SYNC)


class Waiting(PassingSink):
    """Lets calls of `negotiate` wait while `is_held`."""

    def __init__(self, behind: Sink) -> None:
        super().__init__(behind)
        self.is_held, self.go_on = False, threading.Event()

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        if self.is_held:
            self.go_on.wait(60)
        return super().negotiate(request)


def test_the_state_of_a_session_that_waits_for_its_sink_is_saved_meanwhile(world: World):
    tokyo = world.behind("tokyo", Waiting)
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, **_SILENT)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: world.execute("paris", _SAVED) == [(SessionState.LOG_ENTRY_SYNC, 1)])
    tokyo.is_held = True
    paris._source.supervisor.sessions()[0].reconnect("the test wants it")  # type: ignore[union-attr]
    try:
        eventually(lambda: world.execute("paris", _SAVED)[0].state == SessionState.NEGOTIATING)
    finally:
        tokyo.go_on.set()


def test_the_standing_of_a_quiet_session_is_not_read(world: World):
    paris = world.link("paris", "tokyo", **_SILENT)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: world.execute("paris", _SAVED) == [(SessionState.LOG_ENTRY_SYNC, 1)])
    changed = paris._source.supervisor._running._changed  # type: ignore[union-attr]
    taken = list[int]()
    take = changed.take

    def counted() -> Any:
        found = take()
        taken.append(len(found))
        return found

    changed.take = counted
    eventually(lambda: len(taken) > 5 and not any(taken[-5:]))
