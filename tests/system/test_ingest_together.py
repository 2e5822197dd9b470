"""Requests that travel together in one message, and the replies that one commit settles."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from sqlalchemy import text

from lr_server import LogReplicationServer
from queues.positions import Position
from queues.produce_envelope import replies_in
from queues.wire import ingest_pb2 as pb
from tests.lr_server.metrics.test_metrics import samples
from tests.system.raw_producer import RawProducer, message, request
from tests.system.test_ingest import Kind, place_of, stored
from tests.system.world import World
from tests.waiting import eventually


def flat(groups: list[list[bytes]]) -> list[bytes]:
    """Return the payloads of all transactions, in order."""
    return [payload for payloads in groups for payload in payloads]


@pytest.fixture
def paris(world: World) -> LogReplicationServer:
    return world.server("paris", ingest=True, producers={"*": {}}, max_payload_bytes=100_000)


def envelope(*requests: pb.ProduceRequest) -> pb.ProduceRequest:
    return pb.ProduceRequest(requests=[each.SerializeToString() for each in requests])


def test_requests_in_one_message_are_stored_in_order_and_share_a_message_of_replies(
    paris: LogReplicationServer,
) -> None:
    with RawProducer(paris.endpoints[0]) as producer:
        sent = [request(0), *(request(number, b"%d" % number) for number in range(1, 101))]
        messages = producer.send([envelope(*sent)])
        replies = [reply for each in messages for reply in replies_in(each)]
        assert [reply.sequence for reply in replies] == list(range(101))
        assert len(messages) < len(replies)
        assert [reply.position.seq for reply in replies[1:]] == list(range(1, 101))
    eventually(lambda: flat(stored(paris)) == [b"%d" % number for number in range(1, 101)])
    place = replies[37].position
    assert place_of(paris, b"37") == Position(place.branch, place.seq)


def test_a_producer_that_sends_single_requests_gets_single_replies(paris: LogReplicationServer) -> None:
    with RawProducer(paris.endpoints[0]) as producer:
        replies = producer.send([request(1, b"a"), envelope(request(2, b"b"), request(3, b"c"))])
        assert [reply.sequence for reply in replies] == [1, 2, 3]


def test_a_refusal_in_a_message_ends_the_stream_after_the_answers_before(paris: LogReplicationServer) -> None:
    with RawProducer(paris.endpoints[0]) as producer:
        messages = producer.send([envelope(request(1, b"a"), request(2, b"b"), request(9, b"x")), request(3, b"c")])
        replies = [reply for each in messages for reply in replies_in(each)]
        assert [reply.sequence for reply in replies] == [1, 2, 9]
        assert [reply.refusal.kind for reply in replies] == [0, 0, Kind.GAP]


@pytest.mark.parametrize(
    "mixed",
    [
        pb.ProduceRequest(client="policy", producer="meter", sequence=1, messages=[message(b"x")], requests=[b"x"]),
        envelope(envelope(request(1, b"x"))),
        envelope(request(1, b"x" * 90_000), request(2, b"x" * 90_000), request(3, b"x" * 90_000)),
    ],
    ids=["mixed", "nested", "large"],
)
def test_a_malformed_message_of_requests_is_refused_and_stores_nothing(
    paris: LogReplicationServer, mixed: pb.ProduceRequest
) -> None:
    with RawProducer(paris.endpoints[0]) as producer:
        (reply,) = producer.send([mixed])
        assert reply.refusal.kind == Kind.INVALID
        assert "`requests`" in reply.refusal.reason
    assert stored(paris) == []


@pytest.mark.long
def test_a_stop_with_requests_in_flight_loses_no_answered_request(world: World) -> None:
    paris = world.server("paris", ingest=True, producers={"*": {}})
    answered: list[int] = []

    def produce(number: int) -> int:
        """Send until the server ends the stream; return the last number that it has answered."""
        known = 0
        name = f"p{number}"

        def sent() -> Iterator[pb.ProduceRequest]:
            for start in range(1, 100_000, 10):
                yield envelope(*(request(each, b"%d" % each, producer=name) for each in range(start, start + 10)))

        with RawProducer(paris.endpoints[0]) as producer:
            try:
                for each in producer.stream(sent(), timeout=120):
                    for reply in replies_in(each):
                        if reply.HasField("refusal"):
                            assert reply.refusal.kind == Kind.TRANSIENT
                            return known
                        known = reply.sequence
                        answered.append(known)
            except grpc.RpcError:
                return known
        return known

    with ThreadPoolExecutor(4) as pool:
        made = [pool.submit(produce, number) for number in range(4)]
        eventually(lambda: len(answered) > 500)
        paris.stop()
        known = [each.result() for each in made]
    with world.site("paris").begin() as connection:
        rows = connection.execute(text("SELECT producer, sequence FROM lrq_producers"))
        last = {row.producer: row.sequence for row in rows}
    assert all(last[f"p{number}"] >= known[number] for number in range(4))
    again = world.server("paris", ingest=True, producers={"*": {}})
    eventually(lambda: len(flat(stored(again))) == sum(last.values()))
    assert again.status()["server"]["troubles"] == {}


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_server_that_stops_answers_stored_requests_with_the_tick_that_comes_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise looks would answer some of them later.
    monkeypatch.setattr("lr_server.ingest.unanswered.LOOK", 1_000.0)
    monkeypatch.setattr("lr_server.ingest.ingest._PATIENCE", 30.0)
    paris = world.server("paris", ingest=True, producers={"*": {}})
    ingest = paris._ingest
    assert ingest is not None
    with RawProducer(paris.endpoints[0]) as producer, ThreadPoolExecutor(2) as pool:
        with world.site("paris").begin() as holder:
            holder.execute(text("LOCK TABLE lrq_ticks IN EXCLUSIVE MODE"))
            sent = pool.submit(producer.send, [envelope(*(request(number, b"x") for number in range(1, 101)))])
            eventually(lambda: ingest.facts.requests == 100 and ingest.facts.groups > 0 and not ingest.facts.waiting)
            stopped = pool.submit(paris.stop)
            work = ingest._work
            assert work is not None
            eventually(lambda: work.waiting.is_closed)
        stopped.result()
        replies = [reply for each in sent.result() for reply in replies_in(each)]
    assert [reply.position.seq for reply in replies] == list(range(1, 101))


def test_the_metrics_count_requests_messages_groups_and_refusals(paris: LogReplicationServer) -> None:
    with RawProducer(paris.endpoints[0]) as producer:
        producer.send([envelope(request(1, b"a", b"b"), request(2, b"c"))])
        producer.send([request(7, b"x")])
    eventually(lambda: samples(paris.site_status())[("lrq_ingest_streams",)] == 0)
    found = samples(paris.site_status())
    assert found[("lrq_ingest_requests_total",)] == 3
    assert found[("lrq_ingest_messages_total",)] == 4
    assert 2 <= found[("lrq_ingest_groups_total",)] <= 3
    assert found[("lrq_ingest_refusals_total", "gap")] == 1
    assert found[("lrq_ingest_waiting",)] == 0
