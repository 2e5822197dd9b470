"""Many sites and clients side by side: everybody gets what is theirs."""

import pytest

from lr_client import RoutingQueueSenderClient
from tests.system.world import Messages, Recorder, World, in_log_sync
from tests.waiting import eventually

#: Ids that are easily taken for one another, or for a part of a name.
TWINS = ("a_b", "a-b", "a.b", "a", "são_paulo", "北京")


def heard(recorder: Recorder, *sources: str) -> dict[str, list[bytes]]:
    assert set(recorder.heard) <= set(sources)
    return {source: recorder.log(source) for source in sources}


def test_three_sources_to_one_sink(world: World) -> None:
    sources = ("paris", "lima", "osaka")
    world.server("tokyo", listen=[])
    tokyo = world.subscribe("tokyo")
    for source in sources:
        world.provide(source, Messages(lambda _, source=source: [f"state of {source}".encode()]))
        in_log_sync(world.server(source, listen=[], peers={"tokyo": "local:tokyo"}), "tokyo")
    for number in range(10):
        for source in sources:
            world.transmit(source, f"{source} {number}".encode(), to=["tokyo"])
    theirs = {source: [f"{source} {number}".encode() for number in range(10)] for source in sources}
    eventually(lambda: heard(tokyo, *sources) == theirs)
    for source in sources:
        assert tokyo.snapshot(source) == [f"state of {source}".encode()]


def test_one_source_to_three_sinks_each_its_own(world: World) -> None:
    sinks = {name: world.subscribe(name) for name in ("tokyo", "lima", "osaka")}
    world.link("paris", *sinks, initial_sync="log")
    for number in range(10):
        world.transmit("paris", f"all {number}".encode(), to=list(sinks))
        for name in sinks:
            world.transmit("paris", f"{name} {number}".encode(), to=[name])
    for name, recorder in sinks.items():
        theirs = [f"{who} {number}".encode() for number in range(10) for who in ("all", name)]
        eventually(lambda recorder=recorder, theirs=theirs: recorder.log("paris") == theirs)


def test_both_directions_at_once(world: World) -> None:
    recorders = {name: world.subscribe(name) for name in ("paris", "tokyo")}
    for name, other in (("paris", "tokyo"), ("tokyo", "paris")):
        world.server(name, listen=[], peers={other: f"local:{other}"}, initial_sync="log")
    for number in range(20):
        world.transmit("paris", f"from paris {number}".encode(), to=["tokyo"])
        world.transmit("tokyo", f"from tokyo {number}".encode(), to=["paris"])
    for name, other in (("paris", "tokyo"), ("tokyo", "paris")):
        theirs = {other: [f"from {other} {number}".encode() for number in range(20)]}
        eventually(lambda name=name, other=other, theirs=theirs: heard(recorders[name], other) == theirs)


def test_clients_whose_names_begin_alike(world: World) -> None:
    clients = ("policy", "policy_v2", "policy_v2_paris", "policy-v2", "policy.v2", "poli")
    recorders = {client: world.subscribe("tokyo", Recorder(client)) for client in clients}
    world.link("paris", "tokyo", initial_sync="log")
    for number in range(3):
        for client in clients:
            world.transmit("paris", f"{client} {number}".encode(), to=["tokyo"], client=client)
    for client, recorder in recorders.items():
        theirs = {"paris": [f"{client} {number}".encode() for number in range(3)]}
        eventually(lambda recorder=recorder, theirs=theirs: heard(recorder, "paris") == theirs)


def test_snapshots_of_several_clients(world: World) -> None:
    clients = ("policy", "policy_v2")
    recorders = {client: world.subscribe("tokyo", Recorder(client)) for client in clients}
    for client in clients:
        world.provide("paris", Messages(lambda _, client=client: [client.encode()] * 3), client)
    paris = world.link("paris", "tokyo")
    in_log_sync(paris, "tokyo")
    for client, recorder in recorders.items():
        eventually(lambda recorder=recorder: recorder.kinds("paris") == ["start 1", "snapshot 3", "complete 1"])
        assert recorder.snapshot("paris") == [client.encode()] * 3


def test_ids_with_marks_and_letters_of_all_kinds(world: World) -> None:
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
def test_ids_that_would_be_ambiguous_are_refused_with_a_sentence(world: World, name: str) -> None:
    with world.site("paris").begin() as connection, pytest.raises(ValueError, match="valid site id"):
        RoutingQueueSenderClient("policy").transmit_log_entry_message(connection, b"", [name])
    with pytest.raises(ValueError, match="valid client name"):
        RoutingQueueSenderClient(name)
