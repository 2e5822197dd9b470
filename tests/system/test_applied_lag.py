"""The applied position of a destination, as its source shows it; both sites show a subscriber that is missing."""

from typing import Any

from discovery.status import read_status
from lr_server import LogReplicationServer
from lrq.cli.health import troubles
from tests.system.world import Recorder, World, sessions_of
from tests.waiting import eventually


def shown(paris: LogReplicationServer) -> tuple[Any, ...]:
    """Return tokyo's acknowledged and applied sequence and the entries of both lags, as paris shows them."""
    found = sessions_of(paris).get("tokyo", {"acked_seq": 0, "applied_seq": None, "lag": {}, "applied_lag": {}})
    lags = found["lag"].get("entries"), found["applied_lag"].get("entries")
    return found["acked_seq"], found["applied_seq"], *lags


def test_a_quiet_source_learns_the_progress_of_its_destination(world: World):
    paris = world.link("paris", "tokyo", initial_sync="log")
    tokyo, may_apply = Recorder(), []
    tokyo.obey = lambda *_: bool(may_apply)
    world.subscribe("tokyo", tokyo, backoff=0.05, max_backoff=0.1)
    for payload in (b"1", b"2", b"3"):
        world.transmit("paris", payload, to=["tokyo"])
    eventually(lambda: shown(paris) == (3, 0, 0, 3))
    may_apply.append(True)
    eventually(lambda: shown(paris) == (3, 3, 0, 0))


def test_the_applied_position_is_kept_while_the_destination_does_not_answer(world: World):
    paris = world.link("paris", "tokyo", initial_sync="log")
    world.subscribe("tokyo")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: shown(paris) == (1, 1, 0, 0))
    paris.stop()
    again = world.server("paris", listen=[], peers={"tokyo": "ipc:///run/lrq-nowhere.sock"}, initial_sync="log")
    eventually(lambda: sessions_of(again)["tokyo"]["state"] == "backing off")
    assert shown(again) == (1, 1, 0, 0)


def test_a_sink_says_that_no_subscriber_works(world: World):
    paris = world.link("paris", "tokyo", initial_sync="log")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: shown(paris)[0] == 1)
    expected = "LRQ_Recv_policy_paris holds 1 entry, and no subscriber of policy works here: start one"
    assert troubles(read_status(world.site("tokyo"))) == [expected]
    world.subscribe("tokyo")
    eventually(lambda: troubles(read_status(world.site("tokyo"))) == [])
