"""Several servers of one site: one works, the others stand by."""

import pytest
from sqlalchemy import update

from queues.errors import WaitTimeoutError
from queues.tables import branches
from tests.system.world import Messages, World, in_log_sync, sessions_of
from tests.waiting import eventually


def test_the_one_that_stands_by_takes_over_when_the_owner_stops_and_nothing_is_lost_or_doubled(world: World) -> None:
    world.provide("paris", Messages(lambda _: [b"state"]))
    recorder = world.subscribe("tokyo")
    owner = world.link("paris", "tokyo")
    standby = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"})
    assert owner.is_owner
    assert not standby.is_owner
    assert "standing by" in standby.status()["server"]["reason"]
    in_log_sync(owner, "tokyo")
    sent = [f"entry {number}".encode() for number in range(60)]
    for number, payload in enumerate(sent):
        world.transmit("paris", payload, to=["tokyo"])
        if number == 30:
            owner.stop()
    eventually(lambda: standby.is_owner)
    standby.drain(timeout=20)
    eventually(lambda: len(recorder.log("paris")) >= len(sent))
    assert recorder.kinds("paris") == ["start 1", "snapshot 1", "complete 1", "log 60"]
    assert recorder.log("paris") == sent
    assert sessions_of(standby)["tokyo"]["state"] == "log-entry sync"
    assert not owner.is_owner


def test_an_owner_that_was_taken_over_says_why_it_stopped_and_stands_by_again(world: World) -> None:
    owner = world.server("paris", listen=[], lease_seconds=3.0)
    # What another server does when it has not heard of the owner for too long.
    world.execute(
        "paris",
        "UPDATE lrq_leases SET generation = generation + 1, owner = 'another', expires_us = expires_us + 3600000000"
        " WHERE name = 'server'",
    )
    eventually(lambda: not owner.is_owner)
    eventually(lambda: "generation 1 was taken over by generation 2" in owner.status()["server"]["reason"])
    world.execute("paris", "UPDATE lrq_leases SET expires_us = 0 WHERE name = 'server'")
    eventually(lambda: owner.is_owner)
    assert owner.status()["owners"][0]["generation"] == 3


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_tokens_from_before_a_promotion_tell_what_is_replicated(world: World) -> None:
    owner = world.link("paris", "tokyo", initial_sync="log")
    paris = world.site("paris")
    token = world.transmit("paris", b"before", to=["tokyo"])
    world.client.wait_replicated(paris, token, ["tokyo"], timeout=20)
    owner.stop()
    # What a promotion changes; the token of a transaction that it has lost is made by hand.
    ((identity,),) = world.execute("paris", "SELECT incarnation FROM lrq_branches")
    system, timeline, database = identity.split("/")
    with paris.begin() as connection:
        earlier = f"{system}/{int(timeline, 16) - 1:08x}/{database}"
        connection.execute(update(branches).values(incarnation=earlier))
    world.server("paris", listen=[], peers={"tokyo": "local:tokyo"})
    newer = world.transmit("paris", b"after", to=["tokyo"])
    world.client.wait_replicated(paris, newer, ["tokyo"], timeout=20)
    world.client.wait_replicated(paris, token, ["tokyo"], timeout=20)
    site, client, branch, _ = token.split("/")
    lost = "/".join((site, client, branch, newer.rpartition("/")[2]))
    with pytest.raises(WaitTimeoutError, match="tokyo"):
        world.client.wait_replicated(paris, lost, ["tokyo"], timeout=0.05)
