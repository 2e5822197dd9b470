"""Several servers of one site take requests; the one that leads the log stores them."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from lr_server import LogReplicationServer
from lr_server.ingest import servicer
from queues.wire import ingest_pb2 as pb
from tests.certificates import issued
from tests.system.raw_producer import RawProducer, request
from tests.system.world import World
from tests.waiting import eventually

Kind = pb.ProduceRefusal


def told(world: World, leader: LogReplicationServer) -> None:
    """Record the endpoints of the leader as servers of a site do."""
    (owner,) = world.execute("paris", "SELECT owner FROM lrq_leases WHERE name = 'server'")[0]
    world.execute("paris", "DELETE FROM lrq_servers WHERE server = :owner", owner=owner)
    world.execute(
        "paris",
        "INSERT INTO lrq_servers (server, endpoints, started_us, expires_us) VALUES (:o, :e, 1, 9000000000000000)",
        o=owner, e=",".join(leader.endpoints),
    )  # fmt: skip


def pair(world: World, **options: Any) -> tuple[LogReplicationServer, LogReplicationServer]:
    leader, other = (world.server("paris", ingest=True, **{"producers": {"*": {}}, **options}) for _ in range(2))
    assert leader.is_owner
    assert not other.is_owner
    told(world, leader)
    return leader, other


def test_a_server_that_does_not_lead_forwards_each_request_one_hop(world: World) -> None:
    leader, other = pair(world)
    with RawProducer(other.endpoints[0]) as producer, RawProducer(leader.endpoints[0]) as direct:
        replies = producer.send([request(1, b"a"), request(2, b"b"), request(0), request(7, b"x")])
        assert [reply.sequence for reply in replies] == [1, 2, 2, 7]
        assert [reply.position.seq for reply in replies[:3]] == [1, 2, 2]
        assert replies[3].refusal.kind == Kind.GAP
        assert producer.send([request(3, b"c")])[0].position.seq == 3
        assert direct.send([request(3, b"c")])[0].position.seq == 3


def test_a_request_at_the_limit_of_bytes_is_forwarded_too(world: World) -> None:
    largest = request(1, *[b"x" * 90_000] * 30)
    limits = {"max_payload_bytes": 90_000, "max_batch_bytes": 90_000, "tick_bytes": 100_000}
    leader, other = pair(world, max_message_bytes=largest.ByteSize(), **limits)
    for server in (leader, other):
        with RawProducer(server.endpoints[0]) as producer:
            assert producer.send([largest])[0].position.seq == 30


def test_a_forwarded_request_is_never_forwarded_again(world: World) -> None:
    leader, other = pair(world)
    with RawProducer(other.endpoints[0]) as producer:
        again = request(1, b"a")
        again.hops = 1
        (reply,) = producer.send([again])
        assert reply.refusal.kind == Kind.NOT_LEADER
        assert reply.leader == leader.endpoints[0]
        assert producer.send([request(0)])[0].sequence == 0


def test_a_server_that_knows_no_leader_says_so(world: World) -> None:
    _, other = pair(world)
    world.execute("paris", "DELETE FROM lrq_servers")
    with RawProducer(other.endpoints[0]) as producer:

        def refused() -> bool:
            (reply,) = producer.send([request(0)])
            return reply.refusal.kind == Kind.NOT_LEADER and not reply.leader

        eventually(refused)


def test_an_unreachable_leader_is_named(world: World) -> None:
    _, other = pair(world)
    world.execute("paris", "UPDATE lrq_servers SET endpoints = 'tcp://127.0.0.1:1'")
    with RawProducer(other.endpoints[0]) as producer:

        def refused() -> bool:
            (reply,) = producer.send([request(0)])
            return reply.refusal.kind == Kind.NOT_LEADER and reply.leader == "tcp://127.0.0.1:1"

        eventually(refused)


@pytest.mark.long
def test_a_producer_goes_on_at_the_next_leader_and_nothing_is_stored_twice(world: World) -> None:
    leader, other = pair(world)
    with RawProducer(leader.endpoints[0]) as producer:
        assert len(producer.send([request(1, b"a"), request(2, b"b")])) == 2
    leader.stop()
    eventually(lambda: other.is_owner)
    with RawProducer(other.endpoints[0]) as producer:

        def repeated() -> bool:
            replies = producer.send([request(2, b"b"), request(3, b"c")])
            return [reply.position.seq for reply in replies if not reply.HasField("refusal")] == [2, 3]

        eventually(repeated)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_certificate_names_the_producer_and_the_site_may_forward_for_others(world: World, tmp_path: Path) -> None:
    authority = trustme.CA()
    for name in ("paris", "meter"):
        (tmp_path / name).mkdir()
    site = issued(authority, tmp_path / "paris", common_name="paris")
    shown = issued(authority, tmp_path / "meter", common_name="meter-1").read()
    leader, other = pair(
        world, listen=["tls://127.0.0.1:0"], producers={"meter-*": {"clients": ["policy"]}},
        tls_certificate=site.certificate, tls_key=site.key, tls_authority=site.authority,
    )  # fmt: skip
    meter = grpc.ssl_channel_credentials(shown.authority, shown.key, shown.certificate)
    for server in (leader, other):
        with RawProducer(server.endpoints[0], meter) as producer:
            (denied,) = producer.send([request(1, b"x", producer="meter-2")])
            assert denied.refusal.kind == Kind.NOT_ALLOWED
            forged = request(1, b"x", producer="meter-2")
            forged.hops = 1
            (denied,) = producer.send([forged])
            assert denied.refusal.kind == Kind.NOT_ALLOWED
    with RawProducer(other.endpoints[0], meter) as producer:
        (reply,) = producer.send([request(1, b"x", producer="meter-1")])
        assert reply.position.seq == 1


def questions(enough: threading.Event) -> Iterator[pb.ProduceRequest]:
    """Yield questions now and then, so that the stream stays open."""
    while not enough.wait(0.2):
        yield request(0)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_request_that_the_leader_turns_away_unread_is_sent_to_the_leader_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as few:
        few.setattr(servicer, "STREAMS_PER_CALLER", 2)
        leader = world.server("paris", ingest=True, producers={"*": {}})
    other = world.server("paris", ingest=True, producers={"*": {}})
    told(world, leader)
    enough = threading.Event()
    with RawProducer(leader.endpoints[0]) as direct, RawProducer(other.endpoints[0]) as producer:
        held = [direct.stream(questions(enough)) for _ in range(2)]
        for each in held:
            next(each)
        (reply,) = producer.send([request(1, b"a"), request(2, b"b")])
        assert (reply.sequence, reply.refusal.kind) == (1, Kind.NOT_LEADER)
        assert "as many as one caller may have" in reply.refusal.reason
        assert reply.leader == leader.endpoints[0]
        enough.set()
        for each in held:
            assert all(not reply.HasField("refusal") for reply in each)

        def stored() -> bool:
            # The leader may count an ended stream for a moment still.
            again = producer.send([request(1, b"a"), request(2, b"b")])
            return [reply.position.seq for reply in again] == [1, 2]

        eventually(stored)
