"""Producers into several rings: each key goes to one ring, in the order of the calls."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from discovery.rings import ring_of
from lr_client import LRMessageWithDestinations
from lr_client.producer import AsyncRingsProducer, ProducerMessage, RingsProducer
from queues import errors
from tests.lr_client.producer.small_server import Refusal, SmallServer

KEYS = [f"meter-{number}" for number in range(30)]
MINE = {"client": "meters", "producer": "hub"}


def message(key: str | None, payload: bytes = b"x") -> ProducerMessage:
    return ProducerMessage(payload, ["tokyo"], partition_key=key)


class BlockingRings:
    """An `AsyncRingsProducer` whose event loop runs during calls."""

    def __init__(self, rings: dict[str, str], **options: Any) -> None:
        self._runner = asyncio.Runner()
        self.producer = AsyncRingsProducer(rings, **options)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.producer, name)
        plain = name in ("ring_of", "producer_for")
        return call if plain else lambda *args, **options: self._runner.run(call(*args, **options))

    def stored(self, messages: list[Any]) -> int:
        async def wait() -> int:
            return (await (await self.producer.submit(messages))).sequence

        return self._runner.run(wait())

    def end(self) -> None:
        self._runner.run(self.producer.close(0))
        self._runner.close()


class ThreadedRings:
    """A `RingsProducer`."""

    def __init__(self, rings: dict[str, str], **options: Any) -> None:
        self.producer = RingsProducer(rings, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.producer, name)

    def stored(self, messages: list[Any]) -> int:
        return self.producer.submit(messages).result(20).sequence

    def end(self) -> None:
        self.producer.close(0)


@pytest.fixture
def servers(new_server: Callable[..., SmallServer]) -> list[SmallServer]:
    return [new_server() for _ in range(3)]


@pytest.fixture(params=[ThreadedRings, BlockingRings], ids=["threads", "asyncio"])
def rings(request: pytest.FixtureRequest, servers: list[SmallServer]) -> Iterator[Any]:
    made = request.param({f"paris-{number}": servers[number].endpoint for number in (2, 0, 1)}, **MINE)
    yield made
    made.end()


def test_each_key_goes_to_its_ring_in_the_order_of_the_calls(servers: list[SmallServer], rings: Any):
    sent = [(key, b"%s %d" % (key.encode(), turn)) for turn in range(3) for key in KEYS]
    for key, payload in sent:
        rings.send([message(key, payload)], timeout=20)
    for number, server in enumerate(servers):
        mine = [payload for key, payload in sent if ring_of(key, 3) == number]
        assert server.log.payloads("meters", "hub") == mine
        assert mine


def test_each_ring_numbers_its_requests(rings: Any):
    first, other = KEYS[0], next(key for key in KEYS if ring_of(key, 3) != ring_of(KEYS[0], 3))
    assert [rings.stored([message(key)]) for key in (first, first, other)] == [1, 2, 1]


def test_messages_of_one_ring_are_one_request(servers: list[SmallServer], rings: Any):
    together = [key for key in KEYS if ring_of(key, 3) == 1][:2]
    given = [message(together[0], b"1"), LRMessageWithDestinations(b"2", ["tokyo"], partition_key=together[1])]
    rings.send(iter(given), timeout=20)
    assert [len(request.messages) for request in servers[1].log.stored["meters", "hub"]] == [2]
    assert (rings.ring_of(together[0]), rings.producer_for(together[0]).last_token) == ("paris-1", "paris/meters/b/1")


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "at least one message"),
        ([(b"x", ["tokyo"])], "give each message one, as a ProducerMessage"),
        ([message(None)], "give each message one, as a ProducerMessage"),
        ([message("")], "partition_key must be a string of 1 to 512 characters"),
        ([message(key) for key in KEYS], "belong to the rings paris-0, paris-1, paris-2, but a request is one"),
    ],
)
def test_a_request_without_one_ring_is_refused(servers: list[SmallServer], rings: Any, messages: list[Any], words: str):
    with pytest.raises(errors.UsageError, match=words):
        rings.send(messages)
    assert all(server.log.stored == {} for server in servers)


def test_a_ring_that_does_not_answer_leaves_the_others_going(servers: list[SmallServer], rings: Any):
    lost, kept = (next(key for key in KEYS if ring_of(key, 3) == number) for number in (0, 1))
    servers[0].always = Refusal.TRANSIENT
    with pytest.raises(errors.TransientError):
        rings.send([message(lost)], timeout=0.2)
    rings.send([message(kept, b"kept")], timeout=20)
    assert servers[1].log.payloads("meters", "hub") == [b"kept"]


def test_the_end_of_a_block_waits_for_the_answers_of_all_rings(servers: list[SmallServer]):
    named = {f"paris-{number}": server.endpoint for number, server in enumerate(servers)}
    with RingsProducer(named, **MINE) as producer:
        futures = [producer.submit([message(key)]) for key in KEYS]
    assert all(future.result(0).sequence for future in futures)
    with pytest.raises(errors.UsageError, match="the producer is closed"):
        producer.send([message(KEYS[0])])

    async def use() -> list[int]:
        async with AsyncRingsProducer(named, client="meters", producer="other") as each:
            begun = [await each.submit([message(key)]) for key in KEYS]
        return [done.result().sequence for done in begun]

    assert all(asyncio.run(use()))


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({}, "0 rings cannot share the keys evenly"),
        ({f"paris-{number}": "tcp://127.0.0.1:1" for number in range(5)}, "5 rings cannot share the keys evenly"),
        ({"paris-0": "tcp://127.0.0.1:1", "lima-1": "tcp://127.0.0.1:2"}, "have no common name with numbers"),
        ({"paris-0": "tcp://127.0.0.1:1", "paris-1": "nonsense"}, "is not an endpoint"),
    ],
)
@pytest.mark.parametrize("kind", [RingsProducer, AsyncRingsProducer])
def test_mistakes_are_told_before_anything_is_sent(kind: Any, named: dict[str, str], words: str):
    with pytest.raises(errors.ConfigurationError, match=words):
        kind(named, **MINE)


@pytest.mark.parametrize("made", [RingsProducer, AsyncRingsProducer])
@pytest.mark.parametrize("rings", [None, ["paris-0"], "paris-0"])
def test_rings_without_endpoints_are_refused_in_one_sentence(made, rings):
    with pytest.raises(errors.ConfigurationError, match="must be a mapping from the site id of each ring"):
        made(rings, **MINE)


@pytest.mark.parametrize("messages", [None, b"x", 1])
def test_messages_that_are_no_collection_are_refused_in_one_sentence(rings, messages):
    with pytest.raises(errors.UsageError, match="messages must be a collection"):
        rings.send(messages, timeout=1)
