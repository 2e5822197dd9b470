"""Snapshots in the file of a ring's member: a leader sends some, and a follower withdraws all."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from sqlalchemy import Engine, text

from lr_client.sender import RoutingQueueSenderClient
from lr_client.snapshot.context import SnapshotContext
from lr_server.protocol.agreement.effects import KeepPromise
from lr_server.ring.former_snapshots import FormerSnapshots
from lr_server.ring.shown_snapshots import ShownSnapshots, state_shown
from lr_server.ring.store import TokenStore
from queues import send_snapshot
from queues.database.transactions import reading, writing
from queues.positions import Position
from queues.send_log.ring.tick_contents import LogEnd, seal_after
from queues.send_snapshot import SnapshotState, SnapshotSync
from queues.send_snapshot.stored_parts import stored_ids
from tests.discovery.members import SimulatedClock
from tests.lr_server.ring.stores import CLIENT, begin, keep_after, new_store, stamp, take, transaction
from tests.waiting import eventually

HISTORY = [("first", 0), ("second", 10), ("third", 14)]


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    ("base", "released", "state"),
    [
        (Position("third", 20), 20, SnapshotState.READY),
        (Position("third", 20), 25, SnapshotState.READY),
        (Position("third", 20), 19, SnapshotState.BUILDING),
        (Position("second", 14), 14, SnapshotState.READY),
        (Position("second", 15), 30, SnapshotState.CANCELLED),
        (Position("second", 15), 12, SnapshotState.CANCELLED),
        (Position("first", 0), 14, SnapshotState.READY),
        (Position("removed", 9), 30, SnapshotState.CANCELLED),
    ],
)
def test_a_snapshot_is_sent_once_no_later_leader_can_replace_its_base(
    base: Position, released: int, state: SnapshotState
):
    assert state_shown(base, HISTORY, released) is state


def one_row(context: SnapshotContext) -> None:
    context.transmit(b"row")
    context.mark_completed()


@dataclass
class Provided:
    """The file of a member with one complete snapshot, whose base is the newest tick."""

    store: TokenStore
    stored: Callable[[], SnapshotSync]


@pytest.fixture
def provided(site: Engine) -> Provided:
    store = new_store(site)
    begin(2, store)
    take([transaction(b"a", b"b")], store)
    with writing(site) as connection:
        (sync_id,) = send_snapshot.request(connection, CLIENT, ["tokyo"], "a test")

    def stored() -> SnapshotSync:
        with reading(site) as connection:
            found = send_snapshot.find(connection, sync_id)
        assert found is not None
        return found

    with RoutingQueueSenderClient(CLIENT).start_snapshot_transmitter(site, one_row):
        eventually(lambda: stored().state is SnapshotState.READY)
    return Provided(store, stored)


def test_a_snapshot_waits_for_the_release_of_its_base(site: Engine, provided: Provided):
    released = iter((0, 1, 2))
    snapshots = ShownSnapshots(site, lambda: next(released))
    shown = [snapshots.shown(provided.stored()).state for _ in range(3)]
    assert provided.stored().base.seq == provided.store.end().tick.end_seq
    assert shown == [SnapshotState.BUILDING, SnapshotState.BUILDING, SnapshotState.READY]


def test_a_base_on_a_ring_outlives_its_branch(provided: Provided):
    assert provided.stored().base.cut == ""


def test_a_snapshot_whose_base_was_replaced_is_never_sent(site: Engine, provided: Provided):
    store = provided.store
    (seal,) = store.read(0, 1)
    store.keep(KeepPromise(3))
    keep_after(1, [seal_after(LogEnd(2, seal.tick), 3, "another", stamp())], store)
    take([transaction(b"c", b"d", b"e")], store)
    assert ShownSnapshots(site, lambda: 3).shown(provided.stored()).state is SnapshotState.CANCELLED


def test_a_follower_withdraws_the_requests_of_an_earlier_lead(site: Engine, provided: Provided):
    former = FormerSnapshots(site, SimulatedClock(site))
    with writing(site) as connection:
        send_snapshot.request(connection, CLIENT, ["lima"], "another test")
    for _ in range(3):
        former.turn("tcp://leader")
    assert provided.stored().state is SnapshotState.CANCELLED
    assert provided.stored().error == "another member of the ring leads: ask at tcp://leader"
    with reading(site) as connection:
        assert not send_snapshot.has_unfinished(connection)
        assert list(stored_ids(connection)) == []


def test_a_file_that_fails_is_tried_again_and_told_once(site: Engine, caplog: pytest.LogCaptureFixture):
    clock = SimulatedClock(site)
    former = FormerSnapshots(site, clock)
    with site.begin() as connection:
        connection.execute(text("ALTER TABLE lrq_snapshots RENAME TO gone"))
    for _ in range(3):
        former.turn("tcp://leader")
        clock.pass_time(2.0)
    assert len([each for each in caplog.records if "are not withdrawn yet" in each.getMessage()]) == 1
    with site.begin() as connection:
        connection.execute(text("ALTER TABLE gone RENAME TO lrq_snapshots"))
    with writing(site) as connection:
        send_snapshot.request(connection, CLIENT, ["lima"], "a test")
    former.turn("tcp://leader")
    with reading(site) as connection:
        assert not send_snapshot.has_unfinished(connection)
