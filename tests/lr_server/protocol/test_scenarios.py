"""Cases that random exploration meets too seldom, each as a story in the same simulation."""

from copy import deepcopy

import pytest

from lr_server.protocol import events as happened
from lr_server.protocol.effects import IgnoreReason
from lr_server.protocol.states import Failed, LogEntrySync, SnapshotTransferring
from tests.lr_server.protocol.model import Chunk
from tests.lr_server.protocol.simulation import Simulation


def working(rows: int = 5, **more: object) -> Simulation:
    """Return a session in log-entry sync, whose application has *rows* entries from a snapshot."""
    sim = Simulation(**more)  # type: ignore[arg-type]
    commit(sim, rows)
    sim.post(happened.Started())
    sim.settle()
    return sim


def commit(sim: Simulation, rows: int, *, owed: bool = True, ticks: bool = True) -> None:
    for _ in range(rows):
        sim.source.commit(next(sim.numbers), owed=owed)
    if ticks:
        sim.source.tick(next(sim.numbers))


def send_and_take(sim: Simulation, frames: int) -> None:
    for _ in range(frames):
        sim.pump()
        assert sim.send()
        assert sim.deliver()


def reconnect(sim: Simulation) -> None:
    sim.cut(0)
    sim.pump()
    sim.retry()
    sim.pump()


def assert_exact(sim: Simulation) -> None:
    sim.settle()
    assert sim.sink.view == sim.source.owed


def test_a_request_during_a_negotiation_is_served():
    sim = working()
    sim.cut(0)
    sim.pump()
    sim.retry()
    sim.pump(answered=False)
    sim.request("a person asked for it")
    assert_exact(sim)
    newest = sim.source.newest_request
    assert newest is not None
    assert sim.sink.sync_id == newest.sync_id


def test_a_quiet_session_resumes_after_a_break_though_the_whole_log_is_trimmed():
    sim = working()
    commit(sim, 1)
    sim.settle()
    first = sim.sink.sync_id
    sim.network_up = False
    sim.cut(0)
    sim.pump()
    commit(sim, 50, owed=False)
    sim.source.trim(sim.source.newest_seq)
    commit(sim, 2)
    assert_exact(sim)
    assert sim.sink.sync_id == first, "a snapshot was sent for nothing"


def test_entries_trimmed_during_a_break_come_in_a_snapshot():
    sim = working()
    first = sim.sink.sync_id
    sim.network_up = False
    sim.cut(0)
    commit(sim, 3)
    sim.source.trim(sim.source.newest_seq)
    assert_exact(sim)
    assert sim.sink.sync_id != first


def test_a_snapshot_applied_before_a_crash_is_not_sent_again():
    sim = Simulation()
    commit(sim, 3)
    sim.post(happened.Started())
    sim.pump()
    sim.build()
    sim.pump()
    while sim.send():
        sim.pump()
        sim.window = sim._new_window()
    sim.crash(delivered=99)
    applied = sim.sink.sync_id
    assert applied
    assert_exact(sim)
    assert (sim.sink.sync_id, len(sim.source.snapshots)) == (applied, 1)


@pytest.mark.parametrize("of", ["connection", "server"])
def test_a_transfer_continues_at_the_row_of_its_interruption(of: str):
    sim = Simulation()
    commit(sim, 12)
    sim.post(happened.Started())
    sim.pump()
    sim.build()
    send_and_take(sim, 3)
    assert len(sim.sink.staged) == 4
    if of == "connection":
        reconnect(sim)
    else:
        sim.crash(delivered=0)
        sim.pump()
    assert isinstance(sim.state, SnapshotTransferring)
    assert sim.state.acked_row == 4
    send_and_take(sim, 2)
    assert len(sim.sink.staged) == 6
    assert_exact(sim)
    assert len(sim.source.snapshots) == 1


def test_only_the_newer_of_two_requests_is_delivered():
    sim = working(12)
    sim.request("first")
    sim.pump()
    sim.build()
    send_and_take(sim, 3)
    sim.request("second")
    assert_exact(sim)
    assert sim.sink.sync_id == sim.source.snapshots[-1].sync_id
    assert sim.source.status(sim.source.snapshots[-2].sync_id) == "cancelled"


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("cut", [True, False])
def test_a_break_in_the_middle_of_a_tick_loses_and_doubles_no_entry(tells: bool, cut: bool):
    sim = working()
    sim.sink.tells_open_tick = tells
    if cut:
        commit(sim, 1, ticks=False)
        sim.request("to pin a cut inside the next tick")
        sim.settle_snapshot()
        commit(sim, 7)
    else:
        commit(sim, 1)
        sim.settle()
        commit(sim, 7)
    first = sim.sink.sync_id
    send_and_take(sim, 2)
    assert sim.sink.received.seq > sim.sink.boundary
    assert bool(sim.sink.received.cut) is cut
    reconnect(sim)
    assert isinstance(sim.state, LogEntrySync)
    assert_exact(sim)
    assert sim.sink.sync_id == first


def test_a_restored_source_that_reuses_numbers_is_noticed():
    sim = working()
    commit(sim, 1)
    sim.settle()
    backup = deepcopy(sim.source)
    commit(sim, 4)
    send_and_take(sim, 2)
    sim.restore_source(backup, branch=None)
    commit(sim, 4)
    assert_exact(sim)


@pytest.mark.parametrize("applied", [True, False])
def test_a_rollback_removes_unapplied_entries_and_applied_ones_need_a_snapshot(applied: bool):
    sim = working()
    commit(sim, 1)
    sim.settle()
    first = sim.sink.sync_id
    backup = deepcopy(sim.source)
    commit(sim, 2)
    send_and_take(sim, 1)
    if applied:
        sim.sink.consume(9)
    sim.restore_source(backup, branch="b2")
    commit(sim, 1)
    assert_exact(sim)
    assert (sim.sink.sync_id == first) is not applied


def test_a_snapshot_with_a_wrong_checksum_fails_visibly_and_is_built_again():
    sim = working()
    sim.request("wanted")
    sim.pump()
    sim.build()
    send_and_take(sim, 2)
    sim.sink.staged[0] = -1
    while not isinstance(sim.state, Failed):
        sim.send()
        sim.deliver()
        sim.receive()
        sim.pump()
    assert "refused snapshot" in sim.state.reason
    spoilt = sim.source.snapshots[-2].sync_id
    assert_exact(sim)
    assert sim.sink.sync_id != spoilt


def test_doubled_frames_change_no_entry():
    sim = working()
    commit(sim, 6)
    for _ in range(3):
        sim.pump()
        sim.send()
        sim.deliver(twice=True)
        sim.receive()
        sim.receive()
    sim.pump()
    assert IgnoreReason.ACKED_ALREADY in sim.ignored
    assert_exact(sim)


def test_late_acknowledgements_of_the_log_do_not_disturb_a_snapshot():
    sim = working()
    commit(sim, 2)
    send_and_take(sim, 1)
    sim.request("wanted")
    sim.pump()
    sim.receive()
    sim.pump()
    assert IgnoreReason.NO_LOG in sim.ignored
    assert not any(isinstance(frame, Chunk) for _, frame in sim.wire)
    assert_exact(sim)
