"""The standings of the sessions in the database: each change is saved, and a quiet session costs no look."""

from typing import Any

import pytest

from lr_server.session import table as session_table
from queues.errors import StoreUnavailableError
from queues.states import SessionState
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
