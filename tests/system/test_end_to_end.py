"""The whole way of an entry: from an application's transaction at one site to a listener at another."""

import pytest

from tests.system.world import Messages, World, in_log_sync
from tests.waiting import eventually


@pytest.mark.parametrize("network", ["tcp", "ipc", "local"])
def test_five_snapshot_messages_then_ten_entries_reach_two_sites_once_each(
    world: World, network: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    peers = {}
    for name in ("tokyo", "lima"):
        listen = {
            "tcp": ["tcp://127.0.0.1:0"],
            "ipc": [f"ipc://{tmp_path_factory.mktemp('s')}/{name}.sock"],
            "local": [],
        }
        server = world.server(name, listen=listen[network])
        peers[name] = server.endpoints[0] if network != "local" else f"local:{name}"
    world.provide("paris", Messages(lambda context: [f"{context.destination}{n}".encode() for n in range(5)]))
    tokyo = world.subscribe("tokyo")
    world.begun("paris", *peers)
    paris = world.server("paris", peers=peers)
    eventually(lambda: tokyo.kinds("paris") == ["start 1", "snapshot 5", "complete 1"])
    in_log_sync(paris, "tokyo", "lima")
    for n in range(10):
        world.transmit("paris", f"entry{n}".encode(), to=["tokyo", "lima"])
    lima = world.subscribe("lima")
    for name, recorder in (("tokyo", tokyo), ("lima", lima)):
        expected = ["start 1", "snapshot 5", "complete 1", "log 10"]
        eventually(lambda recorder=recorder, expected=expected: recorder.kinds("paris") == expected)
        assert recorder.snapshot("paris") == [f"{name}{n}".encode() for n in range(5)]
        assert recorder.log("paris") == [f"entry{n}".encode() for n in range(10)]
    paris.drain(timeout=20)
    assert all(s["lag"]["entries"] == 0 for s in paris.status()["sessions"])
