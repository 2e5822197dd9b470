"""What `drain` waits for, and what the database is told of the sessions meanwhile."""

import threading
from collections.abc import Iterable
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient
from lr_server import session_table
from lr_server.states import Standing
from queues.errors import WaitTimeoutError
from queues.leases import Lease
from queues.log.port import Owed
from tests.system.world import World, in_log_sync
from tests.waiting import eventually


def transmit_first(world: World, client: str) -> None:
    """Transmit the first entry of a client that nobody has heard of."""
    with Session(world.site("paris")) as session, session.begin():
        RoutingQueueSenderClient(client).transmit_log_entry_message(session, b"entry", ["tokyo"])


def test_it_waits_for_a_client_that_has_no_session_yet(world: World) -> None:
    paris = world.link("paris", "tokyo", initial_sync="log", snapshot_poll_seconds=1.0)
    world.transmit("paris", b"entry", to=["tokyo"])
    in_log_sync(paris, "tokyo")
    transmit_first(world, "billing")
    paris.drain(timeout=20)
    assert len(world.execute("tokyo", "SELECT 1 FROM lrq_receive_entries")) == 2


def test_right_after_the_start_it_waits_for_what_was_there_before(world: World) -> None:
    transmit_first(world, "billing")
    world.link("paris", "tokyo", initial_sync="log").drain(timeout=20)
    assert len(world.execute("tokyo", "SELECT 1 FROM lrq_receive_entries")) == 1


def test_nothing_is_drained_before_anybody_has_looked(world: World) -> None:
    paris = world.link("paris", "tokyo", initial_sync="log")
    with pytest.raises(WaitTimeoutError, match="the log was not looked at since"):
        paris.drain(timeout=0)


def test_how_sessions_stand_is_never_written_over_what_was_found_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    paris = world.link("paris", "tokyo", initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    in_log_sync(paris, "tokyo")
    paris.drain(timeout=20)
    (session,) = paris._source.supervisor.sessions()
    save = session_table.save
    held, overtaken = threading.Event(), threading.Event()
    written: list[int] = []

    def hold_the_first(engine: Engine, lease: Lease, standings: Iterable[tuple[Owed, Standing]]) -> None:
        found = list(standings)
        if not held.is_set():
            held.set()
            overtaken.wait(1)
        save(engine, lease, found)
        written.extend(standing.acked.seq for _, standing in found)

    monkeypatch.setattr(session_table, "save", hold_the_first)
    world.transmit("paris", b"2", to=["tokyo"])
    assert held.wait(20)
    before = session.standing.acked.seq
    world.transmit("paris", b"3", to=["tokyo"])
    eventually(lambda: session.standing.acked.seq > before)

    def look() -> None:
        paris.status()
        overtaken.set()

    another = threading.Thread(target=look)
    another.start()
    another.join()
    eventually(lambda: len(written) > 1 and _acked(world) == session.standing.acked.seq)
    assert written == sorted(written)


def _acked(world: World) -> Any:
    (row,) = world.execute("paris", "SELECT acked_seq FROM lrq_sessions")
    return row.acked_seq
