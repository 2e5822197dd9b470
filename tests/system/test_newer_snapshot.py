"""A newer request for a snapshot replaces the one that is being built or sent."""

from typing import Any

from queues import send_snapshot
from queues.database.transactions import writing
from queues.names import ClientName, SiteId
from tests.system.faulty import HeldSink
from tests.system.world import Messages, World, sessions_of
from tests.waiting import eventually

ROWS = 200


def rows_of(context: Any) -> list[bytes]:
    """Return rows that each name the snapshot's `sync_id`."""
    return [f"{context.sync_id}/{number}".encode() for number in range(ROWS)]


def delivers_only_the_newer(world: World, older: str) -> None:
    tokyo = world.subscribe("tokyo")
    eventually(lambda: "complete 1" in tokyo.kinds("paris"))
    world.transmit("paris", b"last", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"last"])
    assert tokyo.kinds("paris") == ["start 1", f"snapshot {ROWS}", "complete 1", "log 1"]
    (newer,) = {row.partition(b"/")[0].decode() for row in tokyo.snapshot("paris")}
    assert newer != older
    assert tokyo.snapshot("paris") == [f"{newer}/{number}".encode() for number in range(ROWS)]


def test_a_request_that_is_cancelled_before_the_session_hears_of_it_leaves_no_session_waiting(world: World) -> None:
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo", initial_sync="snapshot")
    world.transmit("paris", b"first", to=["tokyo"])
    eventually(lambda: sessions_of(paris).get("tokyo", {}).get("state") == "snapshot sync")
    with writing(world.site("paris")) as connection:
        send_snapshot.request(connection, ClientName("policy"), ["tokyo"], "asked for by mistake")
        assert send_snapshot.cancel(connection, ClientName("policy"), SiteId("tokyo")) == 2
    world.provide("paris", Messages(lambda _: [b"state"]))
    eventually(lambda: recorder.kinds("paris") == ["start 1", "snapshot 1", "complete 1"])


def test_a_half_built_snapshot_is_cancelled_and_only_the_newer_one_is_delivered(world: World) -> None:
    provider = Messages(rows_of, hold_after=ROWS // 2)
    world.provide("paris", provider)
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo")
    assert provider.held.wait(20)
    (older,) = [snapshot["sync_id"] for snapshot in paris.status()["snapshots"]]
    world.request_snapshots("paris", "tokyo")
    delivers_only_the_newer(world, older)
    assert provider.cancelled == ["tokyo"]


def test_a_half_sent_snapshot_is_given_up_and_only_the_newer_one_is_delivered(world: World) -> None:
    world.provide("paris", Messages(rows_of), block_rows=1)
    tokyo = world.behind("tokyo", lambda sink: HeldSink(sink, chunks=ROWS // 2))
    world.begun("paris", "tokyo")
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, max_batch_bytes=1)
    assert tokyo.held.wait(20)
    (older,) = [snapshot["sync_id"] for snapshot in paris.status()["snapshots"]]
    world.request_snapshots("paris", "tokyo")
    eventually(lambda: older not in sessions_of(paris)["tokyo"]["reason"])
    assert world.execute("tokyo", "SELECT staging_sync_id, staging_rows FROM lrq_receive_marks") == [(older, ROWS // 2)]
    tokyo.go_on.set()
    delivers_only_the_newer(world, older)
