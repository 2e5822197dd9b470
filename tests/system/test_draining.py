"""The sessions and clients that `drain` waits for, and the session rows that it reads."""

import threading
from collections.abc import Iterable
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient
from lr_server import LogReplicationServer
from lr_server.session import table as session_table
from lr_server.session.table import Standing
from queues.clock import SYSTEM_CLOCK
from queues.database.leases import Lease
from queues.errors import InvalidPositionError, OwnershipLostError, UsageError, VersionLostError, WaitTimeoutError
from queues.positions import Position, Tick
from queues.send_log.port import TickRows
from queues.states import SessionState
from tests.received import COUNT
from tests.system.faulty import StillSink
from tests.system.world import World, in_log_sync, sessions_of
from tests.waiting import eventually


def transmit_first(world: World, client: str) -> None:
    """Transmit the first entry of a client that is new to the server."""
    with Session(world.site("paris")) as session, session.begin():
        RoutingQueueSenderClient(client).transmit_log_entry_message(session, b"entry", ["tokyo"])


def refused_drain(server: LogReplicationServer) -> str:
    """Return the sentence of a drain that times out."""
    with pytest.raises(WaitTimeoutError) as refused:
        server.drain(timeout=0.2)
    return str(refused.value)


def test_drain_waits_for_a_client_that_has_no_session_yet(world: World) -> None:
    paris = world.link("paris", "tokyo", initial_sync="log", snapshot_poll_seconds=1.0)
    world.transmit("paris", b"entry", to=["tokyo"])
    in_log_sync(paris, "tokyo")
    transmit_first(world, "billing")
    paris.drain(timeout=20)
    assert world.execute("tokyo", COUNT) == [(2,)]


def test_drain_right_after_the_start_waits_for_entries_from_before_the_start(world: World) -> None:
    transmit_first(world, "billing")
    world.link("paris", "tokyo", initial_sync="log").drain(timeout=20)
    assert world.execute("tokyo", COUNT) == [(1,)]


def test_drain_does_not_succeed_before_the_server_has_read_the_log(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    paris = world.link("paris", "tokyo", initial_sync="log")
    take, held, released = paris._source.log.take_tick, threading.Event(), threading.Event()

    def take_when_released(lease: Lease, last: Tick | None, *more: Any) -> TickRows | None:
        held.set()
        released.wait(60)
        return take(lease, last, *more)

    monkeypatch.setattr(paris._source.log, "take_tick", take_when_released)
    world.transmit("paris", b"wakes the sequencer, which may be reading already", to=["tokyo"])
    assert held.wait(20)
    world.transmit("paris", b"cannot be read before the release", to=["tokyo"])
    try:
        with pytest.raises(WaitTimeoutError, match="the sequencer has not read the log since"):
            paris.drain(timeout=0)
    finally:
        released.set()
    paris.drain(timeout=20)


def test_drain_waits_up_to_a_position_only(world: World) -> None:
    sink = world.behind("tokyo", StillSink)
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log", tick_rows=1)
    world.transmit("paris", b"1", to=["tokyo"])
    paris.drain(timeout=20)
    log = paris.site_status().log
    sink.stand_still()
    world.transmit("paris", b"2", to=["tokyo"])
    paris.drain(timeout=20, until=f"{log.branch}@{log.seq}")
    eventually(lambda: paris.site_status().log.seq > log.seq)
    with pytest.raises(WaitTimeoutError, match=f"policy to tokyo: {log.seq} of {log.seq + 1}"):
        paris.drain(timeout=0.2, until=Position(log.branch, log.seq + 1))
    sink.go_on()
    paris.drain(timeout=20, until=Position(log.branch, log.seq + 1))
    assert world.execute("tokyo", COUNT) == [(2,)]


def test_one_deadline_holds_for_all_sessions(world: World) -> None:
    lost = {f"site{number}": "ipc:///nowhere/lrq.sock" for number in range(6)}
    paris = world.server("paris", listen=[], peers=lost, initial_sync="log")
    world.transmit("paris", b"entry", to=list(lost))
    eventually(lambda: sessions_of(paris).keys() == lost.keys())
    began = SYSTEM_CLOCK.monotonic()
    with pytest.raises(WaitTimeoutError) as refused:
        paris.drain(timeout=3.0)
    assert SYSTEM_CLOCK.monotonic() - began < 18, "less than three seconds for each session"
    assert all(f"policy to {site}" in str(refused.value) for site in lost)


def test_drain_waits_for_a_log_that_has_not_reached_the_position(world: World) -> None:
    paris = world.link("paris", "tokyo", initial_sync="log")
    log = paris.site_status().log
    with pytest.raises(WaitTimeoutError, match=rf"the log ends at 0, before {log.branch}@2"):
        paris.drain(timeout=0.2, until=f"{log.branch}@2")
    for payload in (b"1", b"2"):
        world.transmit("paris", payload, to=["tokyo"])
    paris.drain(timeout=20, until=f"{log.branch}@2")
    assert world.execute("tokyo", COUNT) == [(2,)]


def test_drain_refuses_a_position_that_the_history_does_not_contain(world: World) -> None:
    paris = world.link("paris", "tokyo", initial_sync="log")
    with pytest.raises(VersionLostError, match="the history of this site does not contain other@1"):
        paris.drain(timeout=20, until="other@1")
    with pytest.raises(InvalidPositionError, match="is not a position"):
        paris.drain(timeout=20, until="other@")


def test_drain_refuses_the_token_of_another_site_and_names_a_branch_that_is_not_known(world: World) -> None:
    paris = world.link("paris", "tokyo", initial_sync="log")
    token = world.transmit("paris", b"1", to=["tokyo"])
    paris.drain(timeout=20, until=token)
    _, *rest = token.split("/")
    with pytest.raises(UsageError, match=r"is one of site 'lima', not of 'paris': wait there"):
        paris.drain(timeout=20, until="/".join(["lima", *rest]))
    with pytest.raises(WaitTimeoutError, match="the history of this site has no branch elsewhere"):
        paris.drain(timeout=0.2, until=f"paris/policy/elsewhere/{rest[-1]}")


def test_a_session_in_snapshot_sync_is_not_drained_though_it_owes_no_entry(world: World) -> None:
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo", initial_sync="snapshot", clients=["policy"])
    eventually(lambda: sessions_of(paris).get("tokyo", {}).get("state") == SessionState.SNAPSHOT_SYNC)
    eventually(lambda: "policy to tokyo: 0 of 0 (snapshot sync: waiting for the provider" in refused_drain(paris))


def test_an_older_session_status_never_overwrites_a_newer_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    paris = world.link("paris", "tokyo", initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    in_log_sync(paris, "tokyo")
    paris.drain(timeout=20)
    (session,) = paris._source.supervisor.sessions()
    save = session_table.save
    held, overtaken = threading.Event(), threading.Event()
    written: list[int] = []

    def hold_the_first(engine: Engine, standings: Iterable[Standing]) -> list[OwnershipLostError]:
        found = list(standings)
        if not held.is_set():
            held.set()
            overtaken.wait(1)
        lost = save(engine, found)
        written.extend(each.facts.acked.seq for each in found)
        return lost

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
