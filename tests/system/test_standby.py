"""Two servers of one site: one takes the ticks, and the other one takes over."""

import pytest
from sqlalchemy import update

from lr_client import position_of
from queues.database.tables.site import branches
from queues.errors import VersionLostError
from tests.system.world import Messages, World, in_log_sync
from tests.waiting import eventually


def test_a_standby_takes_over_when_the_owner_stops_and_no_entry_is_lost_or_doubled(world: World) -> None:
    world.provide("paris", Messages(lambda _: [b"state"]))
    recorder = world.subscribe("tokyo")
    world.begun("paris", "tokyo")
    owner = world.link("paris", "tokyo")
    standby = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"})
    assert owner.is_owner
    assert not standby.is_owner
    assert "takes the ticks" in standby.status()["server"]["reason"]
    in_log_sync(owner, "tokyo")
    sent = [f"entry {number}".encode() for number in range(60)]
    for number, payload in enumerate(sent):
        world.transmit("paris", payload, to=["tokyo"])
        if number == 30:
            owner.stop()
    eventually(lambda: standby.is_owner)
    standby.drain(timeout=60)
    eventually(lambda: len(recorder.log("paris")) >= len(sent))
    assert recorder.kinds("paris") == ["start 1", "snapshot 1", "complete 1", "log 60"]
    assert recorder.log("paris") == sent
    in_log_sync(standby, "tokyo")
    assert not owner.is_owner


def test_a_standby_starts_without_waiting_for_the_lease(world: World) -> None:
    world.server("paris", listen=[])
    # A start that waits for this lease runs into the time limit of every test.
    standby = world.server("paris", listen=[], lease_seconds=600)
    assert not standby.is_owner


def test_a_server_that_an_older_lrq_replaces_gives_the_reason_and_works_again_later(world: World) -> None:
    owner = world.server("paris", listen=[], lease_seconds=3.0)
    eventually(lambda: owner.server_status().ranges == 64)
    # A server of an older lrq writes the same row when it takes over an expired lease.
    world.execute(
        "paris",
        "UPDATE lrq_leases SET generation = generation + 1, owner = 'another', expires_us = expires_us + 3600000000"
        " WHERE name = 'server'",
    )
    eventually(lambda: not owner.is_owner)
    eventually(lambda: "was taken over by generation" in owner.status()["server"]["reason"])
    eventually(lambda: "an older lrq works for the site alone: another" in owner.status()["server"]["reason"])
    assert owner.server_status().ranges == 0
    world.execute("paris", "UPDATE lrq_leases SET expires_us = 0 WHERE name = 'server'")
    eventually(lambda: owner.is_owner and owner.server_status().ranges == 64)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_tokens_from_before_a_promotion_still_show_whether_an_entry_is_replicated(world: World) -> None:
    owner = world.link("paris", "tokyo", initial_sync="log")
    paris = world.site("paris")
    token = world.transmit("paris", b"before", to=["tokyo"])
    world.client.wait_replicated(paris, token, ["tokyo"], timeout=60)
    owner.stop()
    # A promotion changes the timeline, so the test starts from an earlier one; it makes the lost token by hand.
    ((identity,),) = world.execute("paris", "SELECT incarnation FROM lrq_branches")
    system, timeline, database = identity.split("/")
    with paris.begin() as connection:
        earlier = f"{system}/{int(timeline, 16) - 1:08x}/{database}"
        connection.execute(update(branches).values(incarnation=earlier))
    world.server("paris", listen=[], peers={"tokyo": "local:tokyo"})
    newer = world.transmit("paris", b"after", to=["tokyo"])
    world.client.wait_replicated(paris, newer, ["tokyo"], timeout=60)
    world.client.wait_replicated(paris, token, ["tokyo"], timeout=60)
    site, client, branch, _ = token.split("/")
    lost = "/".join((site, client, branch, newer.rpartition("/")[2]))
    with pytest.raises(VersionLostError, match="is not in the history of 'paris' any more"):
        world.client.wait_replicated(paris, lost, ["tokyo"], timeout=60)
    with pytest.raises(VersionLostError, match="is not in the history of 'paris' any more"):
        position_of(paris, lost)
    assert position_of(paris, token).seq < position_of(paris, newer).seq
