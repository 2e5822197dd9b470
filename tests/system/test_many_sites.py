"""A source with many sites, of which only some have entries."""

import threading

from tests.system.world import World, in_log_sync, sessions_of
from tests.waiting import eventually

SITES = 1_000
#: More than the threads of a server without sessions.
FEW = 40


def session_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(("lrq-session-", "lrq-stream-"))]


def test_a_pair_of_a_client_and_a_peer_without_an_entry_costs_no_thread(world: World) -> None:
    (endpoint,) = world.server("tokyo").endpoints
    recorder = world.subscribe("tokyo")
    before = threading.active_count()
    others = {f"site{number}": "tcp://127.0.0.1:9" for number in range(SITES - 1)}
    paris = world.server(
        "paris", listen=[], peers={**others, "tokyo": endpoint}, clients=["policy", "billing"], initial_sync="log"
    )
    assert session_threads() == []
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"1"])
    in_log_sync(paris, "tokyo")
    assert sessions_of(paris).keys() == {"tokyo"}
    assert sorted(session_threads()) == ["lrq-session-policy-tokyo", "lrq-stream-policy-tokyo"]
    assert threading.active_count() - before < FEW
