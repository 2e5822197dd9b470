"""A server that answers nonsense gets no request stored and no producer stopped; each call ends in time."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import grpc
import pytest

from lr_client.producer.desk import METHOD
from queues import errors
from queues.wire import ingest_pb2 as pb
from queues.wire import replication_pb2

Make = Callable[..., Any]

RIGHT = pb.ProduceReply(sequence=1, token="t", position=replication_pb2.Position(branch="b", seq=1))
REPLIES: dict[str, list[bytes]] = {
    "no protobuf": [b"\xff" * 20],
    "cut short": [RIGHT.SerializeToString()[:3]],
    "a huge number": [pb.ProduceReply(sequence=2**64 - 1).SerializeToString()],
    "two answers to the question": [b"", RIGHT.SerializeToString(), RIGHT.SerializeToString()],
    "an unknown refusal": [
        pb.ProduceReply(refusal=pb.ProduceRefusal(kind=99, reason="\x1b[31m\0" + "x" * 5000)).SerializeToString()  # type: ignore[arg-type]
    ],
    "a refused question with a gap": [
        pb.ProduceReply(refusal=pb.ProduceRefusal(kind=pb.ProduceRefusal.GAP)).SerializeToString()
    ],
    "a large reply": [pb.ProduceReply(token="x" * 5_000_000).SerializeToString()],
    "nothing": [],
}


@pytest.fixture
def answering() -> Iterator[Callable[[list[bytes]], str]]:
    """Give a function that starts a server which answers each request with the next of given bytes."""
    made: list[tuple[grpc.Server, ThreadPoolExecutor]] = []

    def start(replies: list[bytes]) -> str:
        def produce(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            for _, reply in zip(requests, replies, strict=False):
                yield reply

        _, service, method = METHOD.split("/")
        handler = grpc.stream_stream_rpc_method_handler(produce)
        threads = ThreadPoolExecutor(8)
        server = grpc.server(threads)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        made.append((server, threads))
        return f"tcp://127.0.0.1:{port}"

    yield start
    for server, threads in made:
        server.stop(0).wait()
        threads.shutdown()


@pytest.mark.parametrize("replies", REPLIES.values(), ids=REPLIES)
def test_nonsense_is_an_error_in_time_and_the_producer_lives(
    answering: Callable[[list[bytes]], str], new_server: Callable[..., Any], new_producer: Make, replies: list[bytes]
):
    honest = new_server()
    producer = new_producer(f"{answering(replies)},{honest.endpoint}")
    assert producer.send([(b"1", ["tokyo"])], timeout=20) is not None
    assert honest.log.payloads() in ([b"1"], [])


@pytest.mark.parametrize("replies", [REPLIES["no protobuf"], REPLIES["an unknown refusal"]], ids=["bytes", "refusal"])
def test_the_words_of_a_server_are_shown_without_control_characters(
    answering: Callable[[list[bytes]], str], new_producer: Make, replies: list[bytes]
):
    with pytest.raises(errors.TransientError) as caught:
        new_producer(answering(replies)).send([(b"1", ["tokyo"])], timeout=0.3)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700


def test_a_server_that_claims_a_number_makes_the_loss_at_the_honest_one_an_error(
    answering: Callable[[list[bytes]], str], new_server: Callable[..., Any], new_producer: Make
):
    honest = new_server()
    liar = answering([pb.ProduceReply(sequence=7).SerializeToString()])
    with pytest.raises(errors.VersionLostError, match="numbers up to 0, but answered 7"):
        new_producer(f"{liar},{honest.endpoint}").send([(b"1", ["tokyo"])], timeout=20)
    assert honest.log.payloads() == []


def test_random_bytes_never_stop_a_producer(
    answering: Callable[[list[bytes]], str], new_producer: Make, chance: random.Random
):
    for _ in range(10):
        replies = [chance.randbytes(chance.randrange(30)) for _ in range(5)]
        producer = new_producer(answering(replies))
        for _ in range(2):
            with suppress(errors.TransientError, errors.UsageError, errors.SetupError, errors.VersionLostError):
                producer.send([(b"1", ["tokyo"])], timeout=0.1)
