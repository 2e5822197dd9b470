"""Many sites and clients side by side: each listener gets its own entries and no others."""

import pytest

from lr_client import RoutingQueueSenderClient
from tests.system.world import Messages, Recorder, World, in_log_sync
from tests.waiting import eventually

#: Similar ids, which careless code would confuse with each other.
TWINS = ("a_b", "a-b", "a.b", "a", "são_paulo", "北京")


def heard(recorder: Recorder, *sources: str) -> dict[str, list[bytes]]:
    assert set(recorder.heard) <= set(sources)
    return {source: recorder.log(source) for source in sources}


def test_one_sink_keeps_three_sources_apart(world: World) -> None:
    sources = ("paris", "lima", "osaka")
    world.server("tokyo", listen=[])
    tokyo = world.subscribe("tokyo")
    for source in sources:
        world.provide(source, Messages(lambda _, source=source: [f"state of {source}".encode()]))
        world.begun(source, "tokyo")
        in_log_sync(world.server(source, listen=[], peers={"tokyo": "local:tokyo"}), "tokyo")
    for number in range(10):
        for source in sources:
            world.transmit(source, f"{source} {number}".encode(), to=["tokyo"])
    theirs = {source: [f"{source} {number}".encode() for number in range(10)] for source in sources}
    eventually(lambda: heard(tokyo, *sources) == theirs)
    for source in sources:
        assert tokyo.snapshot(source) == [f"state of {source}".encode()]


def test_each_of_three_sinks_gets_its_own_entries_from_one_source(world: World) -> None:
    sinks = {name: world.subscribe(name) for name in ("tokyo", "lima", "osaka")}
    world.link("paris", *sinks, initial_sync="log")
    for number in range(10):
        world.transmit("paris", f"all {number}".encode(), to=list(sinks))
        for name in sinks:
            world.transmit("paris", f"{name} {number}".encode(), to=[name])
    for name, recorder in sinks.items():
        theirs = [f"{to} {number}".encode() for number in range(10) for to in ("all", name)]
        eventually(lambda recorder=recorder, theirs=theirs: recorder.log("paris") == theirs)


def test_two_sites_replicate_in_both_directions_at_once(world: World) -> None:
    recorders = {name: world.subscribe(name) for name in ("paris", "tokyo")}
    for name, other in (("paris", "tokyo"), ("tokyo", "paris")):
        world.server(name, listen=[], peers={other: f"local:{other}"}, initial_sync="log")
    for number in range(20):
        world.transmit("paris", f"from paris {number}".encode(), to=["tokyo"])
        world.transmit("tokyo", f"from tokyo {number}".encode(), to=["paris"])
    for name, other in (("paris", "tokyo"), ("tokyo", "paris")):
        theirs = {other: [f"from {other} {number}".encode() for number in range(20)]}
        eventually(lambda name=name, other=other, theirs=theirs: heard(recorders[name], other) == theirs)


def test_clients_with_a_common_prefix_are_kept_apart(world: World) -> None:
    clients = ("policy", "policy_v2", "policy_v2_paris", "policy-v2", "policy.v2", "poli")
    recorders = {client: world.subscribe("tokyo", Recorder(client)) for client in clients}
    world.link("paris", "tokyo", initial_sync="log")
    for number in range(3):
        for client in clients:
            world.transmit("paris", f"{client} {number}".encode(), to=["tokyo"], client=client)
    for client, recorder in recorders.items():
        theirs = {"paris": [f"{client} {number}".encode() for number in range(3)]}
        eventually(lambda recorder=recorder, theirs=theirs: heard(recorder, "paris") == theirs)


def test_each_client_gets_its_own_snapshot(world: World) -> None:
    clients = ("policy", "policy_v2")
    recorders = {client: world.subscribe("tokyo", Recorder(client)) for client in clients}
    for client in clients:
        world.provide("paris", Messages(lambda _, client=client: [client.encode()] * 3), client)
        world.begun("paris", "tokyo", client=client)
    paris = world.link("paris", "tokyo")
    in_log_sync(paris, "tokyo")
    for client, recorder in recorders.items():
        eventually(lambda recorder=recorder: recorder.kinds("paris") == ["start 1", "snapshot 3", "complete 1"])
        assert recorder.snapshot("paris") == [client.encode()] * 3


def test_ids_may_have_punctuation_and_letters_of_any_alphabet(world: World) -> None:
    source = "são_paulo.1-x"
    client = "règle_ü.2"
    recorders = {name: world.subscribe(name, Recorder(client)) for name in TWINS}
    world.link(source, *TWINS, initial_sync="log")
    for name in TWINS:
        world.transmit(source, name.encode(), to=[name], client=client)
    world.transmit(source, b"all", to=TWINS, client=client)
    for name, recorder in recorders.items():
        eventually(lambda name=name, recorder=recorder: heard(recorder, source) == {source: [name.encode(), b"all"]})


@pytest.mark.parametrize("name", ["", "a,b", "a b", "a/b", "-a", "a\u0301", "*", "a" * 65])
def test_ambiguous_ids_are_refused_with_a_sentence(world: World, name: str) -> None:
    with world.site("paris").begin() as connection, pytest.raises(ValueError, match="valid site id"):
        RoutingQueueSenderClient("policy").transmit_log_entry_message(connection, b"", [name])
    with pytest.raises(ValueError, match="valid client name"):
        RoutingQueueSenderClient(name)
