"""The standings of the sessions in the database: each change is saved, and a quiet session costs no look."""

import threading
from typing import Any

import pytest

from lr_server.protocol.events import EndAcked, Event
from lr_server.session import table as session_table
from lr_server.session.stream import FrameStream
from lr_server.session.turns import SlowWork
from lrq.cli import link_actions
from queues.errors import StoreUnavailableError
from queues.names import SiteId
from queues.send_log.port import SessionKey
from queues.states import SessionState
from queues.thread_lack import NO_THREAD
from queues.wire import replication_pb2 as pb
from sink.port import Sink
from tests.system.faulty import PassingSink
from tests.system.test_replay import linked, replayed, sent_one_by_one
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


def test_a_finished_session_is_saved_although_a_thread_stands_still_before_its_note(world: World):
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo", clients=["policy"], **_SILENT)
    eventually(lambda: world.execute("paris", _SAVED)[0].state == SessionState.LOG_ENTRY_SYNC)
    running = paris._source.supervisor._running  # type: ignore[union-attr]
    [session] = running.all()
    changed, told = running._changed, set[SessionKey]()
    take = changed.take

    def tell(owed: SessionKey) -> None:
        if threading.current_thread().name != "lrq-supervisor" and session.is_finished:
            # Each other thread stands still before it tells the last state.
            eventually(lambda: running.get(owed) is not session)
        told.add(owed)
        note(owed)

    def take_end(event: Event, stream: FrameStream | None) -> SlowWork:
        if isinstance(event, EndAcked):
            # The save of an earlier note must not bring the last state.
            eventually(lambda: not told)
        return take_event(event, stream)

    note, take_event = changed.note, session._turns._take
    changed.note, session._turns._take = tell, take_end
    changed.take = lambda: take() & {told.pop() for _ in range(len(told))}
    link_actions.end(world.site("paris"), SiteId("tokyo"), None)
    eventually(lambda: running.all() == [])
    eventually(lambda: world.execute("paris", _SAVED)[0].state == SessionState.FINISHED)


def test_the_next_session_of_a_link_is_saved_behind_the_end_of_the_last_one(world: World):
    paris = world.link("paris", "tokyo", **_SILENT)
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: world.execute("paris", _SAVED) == [(SessionState.LOG_ENTRY_SYNC, 1)])
    supervisor = paris._source.supervisor  # type: ignore[union-attr]
    running = supervisor._running
    [last] = running.all()
    join = last.join

    def join_late() -> None:
        join()
        supervisor._awake.set()
        # The next session has begun, and its facts are saved already.
        eventually(
            lambda: (
                running.get(last.owed) not in (None, last)
                and running._saved.get(last.owed, last.standing).words.name is SessionState.LOG_ENTRY_SYNC
                and not running._changed._noted
            )
        )

    last.join = join_late
    running.end_where(lambda session: session is last)
    eventually(lambda: world.execute("paris", _SAVED)[0].state == SessionState.LOG_ENTRY_SYNC)


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


def test_a_replay_between_two_saves_is_followed_by_a_save(world: World):
    paris = linked(world, options={**_SILENT, "acknowledged_retention_seconds": 3600.0})
    last = sent_one_by_one(world, 4)[-1]
    supervisor = paris._source.supervisor  # type: ignore[union-attr]
    [session] = supervisor.sessions()
    eventually(lambda: world.execute("paris", _SAVED) == [(SessionState.LOG_ENTRY_SYNC, last)])
    before = session.standing
    # The last save took long, so the next one rests.
    with pytest.MonkeyPatch.context() as resting:
        resting.setattr(supervisor, "_save_from", float("inf"))
        replayed(world.site("tokyo"), start=last)
        eventually(lambda: session.standing.acked == before.acked)
    supervisor._awake.set()
    eventually(lambda: world.execute("paris", _SAVED) == [(SessionState.LOG_ENTRY_SYNC, last)])


def test_a_session_without_a_thread_holds_up_no_save_of_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, full = threading.Thread.start, True

    def start(thread: threading.Thread) -> None:
        if full and thread.name == "lrq-session-policy-lima":
            raise RuntimeError("can't start new thread")
        really(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    lima = world.subscribe("lima")
    paris = world.link("paris", "tokyo", "lima", initial_sync="log", stall_seconds=2.0)
    token = world.transmit("paris", b"1", to=["tokyo", "lima"])
    world.client.wait_replicated(world.site("paris"), token, ["tokyo"], timeout=60)
    eventually(lambda: paris._source is not None and NO_THREAD in paris._source.supervisor.trouble)
    full = False
    eventually(lambda: lima.log("paris") == [b"1"])
    eventually(lambda: paris._source is not None and not paris._source.supervisor.trouble)
