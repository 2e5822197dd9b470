"""Producers without a database send messages to a server."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import grpc
import pytest
from sqlalchemy import event, text

from lr_server import LogReplicationServer
from lr_server.ingest.waiting import Room
from queues.positions import Position
from queues.send_log.opening import open_log
from queues.send_log.port import TickLimits
from queues.wire import ingest_pb2 as pb
from tests.system.raw_producer import RawProducer, message, request
from tests.system.world import World
from tests.waiting import eventually

Kind = pb.ProduceRefusal


@pytest.fixture
def paris(world: World) -> LogReplicationServer:
    return world.server("paris", ingest=True, producers={"*": {}}, max_payload_bytes=100_000)


def stored(server: LogReplicationServer) -> list[list[bytes]]:
    """Return the payloads in the log, by source transaction, in order."""
    log = open_log(server._engine)
    groups: dict[tuple[int, int | None], list[bytes]] = {}
    after = 0
    while ticks := log.ticks_after(after, TickLimits()):
        for piece in log.read_all(ticks, TickLimits()):
            for entry in piece:
                groups.setdefault((entry.row.transaction, entry.row.request), []).append(bytes(entry.row.payload))
        after = ticks[-1].end_seq
    return list(groups.values())


def place_of(server: LogReplicationServer, payload: bytes) -> Position:
    log = open_log(server._engine)
    for piece in log.read_all(log.ticks_after(0, TickLimits()), TickLimits()):
        for entry in piece:
            if entry.row.payload == payload:
                return Position(entry.tick.branch, entry.seq)
    raise AssertionError(payload)


def test_stored_requests_are_answered_in_order_with_their_places_in_the_log(paris: LogReplicationServer) -> None:
    with RawProducer(paris.endpoints[0]) as producer:
        replies = producer.send([request(1, b"a", b"b"), request(2, b"c")])
        assert [reply.sequence for reply in replies] == [1, 2]
        assert [reply.position.seq for reply in replies] == [2, 3]
        assert [reply.token.split("/")[:2] for reply in replies] == [["paris", "policy"]] * 2
        again = producer.send([request(2, b"c"), request(3, b"d"), request(0), request(9, b"x"), request(4, b"y")])
        assert [reply.sequence for reply in again] == [2, 3, 3, 9]
        assert [reply.position.seq for reply in again[:3]] == [3, 4, 4]
        assert again[0].token == replies[1].token
        assert again[3].refusal.kind == Kind.GAP
        assert again[3].refusal.last_sequence == 3
    eventually(lambda: len(stored(paris)) >= 3)
    eventually(lambda: stored(paris)[:3] == [[b"a", b"b"], [b"c"], [b"d"]])
    assert place_of(paris, b"b") == Position(replies[0].position.branch, 2)
    assert place_of(paris, b"c") == Position(replies[1].position.branch, 3)


def test_a_subscriber_gets_each_request_whole_and_in_order(world: World) -> None:
    recorder = world.subscribe("tokyo")
    tokyo = world.server("tokyo")
    paris = world.server(
        "paris", ingest=True, producers={"*": {}}, peers={"tokyo": tokyo.endpoints[0]}, initial_sync="log"
    )
    with RawProducer(paris.endpoints[0]) as producer:
        producer.send(request(number, b"%d a" % number, b"%d b" % number) for number in range(1, 101))
    eventually(lambda: len(recorder.log("paris")) >= 200)
    assert recorder.log("paris") == [b"%d %c" % (number, part) for number in range(1, 101) for part in b"ab"]
    assert all(len(payloads) % 2 == 0 for _, payloads in recorder.calls)


def test_a_transaction_above_the_limits_of_a_tick_has_its_place_too(world: World) -> None:
    paris = world.server("paris", ingest=True, producers={"*": {}}, tick_bytes=10_000)
    with RawProducer(paris.endpoints[0]) as producer:
        replies = producer.send(
            [request(1, b"1"), request(2, *[b"x" * 1_000] * 50), request(3, b"3"), request(3, b"3")]
        )
    assert [reply.position.seq for reply in replies] == [1, 51, 52, 52]


def bad(sequence: int = 1, *messages: pb.ProducedMessage, **names: str) -> pb.ProduceRequest:
    return pb.ProduceRequest(**{"client": "policy", "producer": "meter", **names}, sequence=sequence, messages=messages)


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (bad(7, message(b"x")), Kind.GAP),
        (bad(1, message(b"x"), client="rules"), Kind.UNKNOWN_CLIENT),
        (bad(1, message(b"x"), producer="thief"), Kind.NOT_ALLOWED),
        (bad(1, message(b"x", "lima")), Kind.NOT_ALLOWED),
        (bad(1, message(b"x", "paris")), Kind.INVALID),
        (bad(1, message(b"x" * 2_000)), Kind.TOO_LARGE),
        (bad(1), Kind.INVALID),
    ],
    ids=["gap", "client", "producer", "destination", "itself", "large", "empty"],
)
def test_each_refusal_stores_nothing_ends_the_stream_and_harms_no_other_request(
    world: World, refused: pb.ProduceRequest, kind: int
) -> None:
    paris = world.server(
        "paris", ingest=True, clients=["policy"], max_payload_bytes=1_000,
        producers={"meter": {"destinations": ["tokyo", "paris"]}, "other": {}},
    )  # fmt: skip
    with RawProducer(paris.endpoints[0]) as producer:
        replies = producer.send(
            [request(1, b"first", producer="other"), refused, request(2, b"later", producer="other")]
        )
        assert [reply.sequence for reply in replies] == [1, refused.sequence]
        assert replies[1].refusal.kind == kind
        assert replies[1].refusal.reason
        (asked,) = producer.send([request(0)])
        assert (asked.sequence, asked.token) == (0, "")
    assert [b"x"] not in stored(paris)
    assert paris.status()["server"]["ingest"]["refusals"] == {Kind.Kind.Name(kind).lower(): 1}


def test_unknown_destinations_are_refused_where_only_known_ones_are_allowed(world: World) -> None:
    paris = world.server(
        "paris", ingest=True, producers={"*": {}}, peers={"lima": "local:lima"}, known_destinations_only=True
    )
    with RawProducer(paris.endpoints[0]) as producer:
        eventually(lambda: world.execute("paris", "SELECT one FROM lrq_known_sites WHERE known_only"))
        (reply,) = producer.send([request(1, b"x")])
        assert reply.refusal.kind == Kind.INVALID
        assert "no peer of 'paris' is named 'tokyo'" in reply.refusal.reason


def test_a_message_above_every_limit_ends_the_call_and_the_server_goes_on(paris: LogReplicationServer) -> None:
    with RawProducer(paris.endpoints[0]) as producer:
        (reply,) = producer.send([request(1, *[b"x" * 100_000] * 260)])
        assert reply.refusal.kind == Kind.TOO_LARGE
        with pytest.raises(grpc.RpcError) as ended:
            producer.send([request(1, b"x" * 40_000_000)])
        assert ended.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert producer.send([request(1, b"x")])[0].position.seq == 1


def test_a_producer_that_waits_for_each_answer_is_served_on_one_stream(paris: LogReplicationServer) -> None:
    asked: SimpleQueue[pb.ProduceRequest | None] = SimpleQueue()
    with RawProducer(paris.endpoints[0]) as producer:
        call = producer.stream(iter(asked.get, None), timeout=60)
        for number in range(1, 21):
            asked.put(request(number, b"x"))
            assert next(call).sequence == number
        asked.put(None)
        assert list(call) == []


@pytest.mark.long
def test_a_quiet_stream_ends_by_itself_and_holds_no_thread(
    paris: LogReplicationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lr_server.ingest.servicer.CALM", 0)
    asked: SimpleQueue[pb.ProduceRequest | None] = SimpleQueue()
    with RawProducer(paris.endpoints[0]) as producer:
        call = producer.stream(iter(asked.get, None), timeout=60)
        asked.put(request(1, b"x"))
        assert [reply.sequence for reply in call] == [1]
        asked.put(None)
        eventually(lambda: not [each for each in threading.enumerate() if each.name == "lrq-ingest-stream"])
        assert producer.send([request(2, b"y")])[0].sequence == 2


@pytest.mark.long
def test_many_streams_of_one_producer_race_and_each_number_is_stored_once(paris: LogReplicationServer) -> None:
    def produce(_: int) -> list[pb.ProduceReply]:
        with RawProducer(paris.endpoints[0]) as producer:
            return producer.send(request(number, b"%d" % number) for number in range(1, 101))

    with ThreadPoolExecutor(8) as pool:
        replies = [reply for each in pool.map(produce, range(8)) for reply in each]
    assert not [reply for reply in replies if reply.HasField("refusal")]
    eventually(lambda: len(stored(paris)) >= 100)
    eventually(lambda: stored(paris) == [[b"%d" % number] for number in range(1, 101)])
    tokens = {(reply.sequence, reply.token) for reply in replies if reply.token}
    assert Counter(number for number, _ in tokens) == Counter(range(1, 101))


@pytest.mark.long
def test_a_group_of_many_producers_shares_commits_and_each_keeps_its_order(
    paris: LogReplicationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A quiet stream ends. A slow machine can make a stream quiet, and these producers do not repeat requests.
    monkeypatch.setattr("lr_server.ingest.stream.QUIET", 60.0)
    commits: list[None] = []
    event.listen(paris._engine, "commit", lambda _connection: commits.append(None))
    start = threading.Barrier(64)

    def produce(number: int) -> None:
        with RawProducer(paris.endpoints[0]) as producer:
            producer.send([request(0, producer=f"p{number}")])
            start.wait(60)
            sent = (request(each, b"%d/%d" % (number, each), producer=f"p{number}") for each in range(1, 33))
            assert len(producer.send(sent)) == 32

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(produce, range(64)))
    ingest = paris.status()["server"]["ingest"]
    assert ingest["requests"] == 64 * 33
    assert ingest["groups"] < 64 * 33 / 2
    if paris._engine.dialect.name == "sqlite":
        assert len(commits) < 64 * 33
    eventually(lambda: len(stored(paris)) >= 64 * 32)
    found = [payload.split(b"/") for (payload,) in stored(paris)]
    for number in range(64):
        assert [int(each) for who, each in found if int(who) == number] == list(range(1, 33))


def test_a_full_queue_refuses_and_stores_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lr_server.ingest.work.ROOM", Room(16, 1_000_000))
    paris = world.server("paris", ingest=True, producers={"*": {}})
    ingest = paris._ingest
    assert ingest is not None
    with RawProducer(paris.endpoints[0]) as producer, ThreadPoolExecutor(1) as pool:
        with world.site("paris").begin() as holder:
            if holder.dialect.name == "postgresql":
                holder.execute(text("LOCK TABLE lrq_producers IN EXCLUSIVE MODE"))
            sent = pool.submit(producer.send, [request(number, b"%d" % number) for number in range(1, 200)])
            eventually(lambda: ingest.facts.refusals == {"full": 1})
        replies = sent.result()
        assert replies[-1].refusal.kind == Kind.FULL
        assert not [reply for reply in replies[:-1] if reply.HasField("refusal")]
        (asked,) = producer.send([request(0)])
        assert asked.sequence == replies[-1].sequence - 1
    expected = [[b"%d" % number] for number in range(1, asked.sequence + 1)]
    eventually(lambda: stored(paris) == expected)


def test_nothing_is_stored_while_the_followers_are_too_few(world: World, dialect: str) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has no standby servers")
    paris = world.server("paris", ingest=True, producers={"*": {}}, require_followers=1)
    with RawProducer(paris.endpoints[0]) as producer:
        (reply,) = producer.send([request(1, b"x")])
    assert reply.refusal.kind == Kind.NO_FOLLOWER
    assert "require_followers is 1" in paris.status()["server"]["troubles"]["ingest"]
    assert stored(paris) == []
