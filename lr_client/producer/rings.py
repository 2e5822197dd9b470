"""Producers into several rings that share the keys of an application (docs/running-a-ring.md)."""

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Required, Self, TypedDict, Unpack

from lr_client.arguments import checked_timeout
from lr_client.producer.answers import Produced
from lr_client.producer.asynchronous import AsyncProducer
from lr_client.producer.encoding import AnyMessage, collected
from lr_client.producer.ring_choice import RingChoice
from lr_client.producer.sync import TIMEOUT, Producer
from queues.clock import SYSTEM_CLOCK
from queues.errors import ConfigurationError
from queues.positions import Position


class ProducerOptions(TypedDict, total=False):
    """The arguments of `Producer` beside the endpoints, for the producer of each ring."""

    client: Required[str]
    producer: Required[str]
    tls_certificate: str | Path | None
    tls_key: str | Path | None
    tls_authority: str | Path | None
    max_payload_bytes: int
    max_in_flight: int
    max_in_flight_bytes: int


class RingsProducer:
    """Sends each message to the ring of its partition key, among several rings; has a `Producer` for each ring.

    Messages of one key are stored in the order of the calls. A request is one transaction of one ring, so all of its
    keys must belong to the same ring. Each ring numbers the requests of the producer by itself.

    Several threads may share one. All producers of an application must name the same rings.

    Example:
        >>> rings = {"paris-0": "tls://a:7400,tls://b:7400,tls://c:7400", "paris-1": "tls://b:7401,tls://c:7401,..."}
        >>> with RingsProducer(rings, client="meters", producer="hub") as producer:
        ...     producer.send([ProducerMessage(b"21.5", ["tokyo"], partition_key="meter-17")], timeout=5)
    """

    def __init__(self, rings: Mapping[str, str], **options: Unpack[ProducerOptions]) -> None:
        """Check the arguments; the first call to a ring connects to that ring only.

        *rings* has the endpoints of each ring by its site id, as `paris-0`, `paris-1` ... The order does not matter.
        The number of rings is 1, 2, 4 ... or 3, 6, 12 ... Each ring gets the *options* of `Producer`.

        Raises the errors of `Producer`, and `ConfigurationError` for other site ids or another number of rings.
        """
        self._choice = RingChoice(_checked(rings))
        self._producers = {site: Producer(endpoints, **options) for site, endpoints in rings.items()}

    def send(self, messages: Iterable[AnyMessage], timeout: float = TIMEOUT) -> Position:
        """Store *messages* as one source transaction of the ring of their keys; see `Producer.send`.

        Raises `UsageError` for a message without `partition_key`, and for keys of several rings.
        """
        held = collected(messages)
        return self._producers[self._choice.site_for(held)].send(held, timeout)

    def submit(self, messages: Iterable[AnyMessage], timeout: float = TIMEOUT) -> "Future[Produced]":
        """Begin to store *messages* at the ring of their keys; see `Producer.submit` and `send`."""
        held = collected(messages)
        return self._producers[self._choice.site_for(held)].submit(held, timeout)

    def ring_of(self, key: str) -> str:
        """Return the site id of the ring that takes the partition key *key*."""
        return self._choice.site_of(key)

    def producer_for(self, key: str) -> Producer:
        """Return the producer of the ring that takes *key*, with its numbers, its last token and its `settle`."""
        return self._producers[self.ring_of(key)]

    def close(self, timeout: float = TIMEOUT) -> None:
        """Wait at most *timeout* seconds for the answers of all rings, then end; see `Producer.close`."""
        deadline = SYSTEM_CLOCK.monotonic() + checked_timeout(timeout)
        for each in self._producers.values():
            each.close(max(0.0, deadline - SYSTEM_CLOCK.monotonic()))

    def __enter__(self) -> Self:
        """Return this producer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all producers; after an error of the block, without waiting for answers."""
        self.close(TIMEOUT if error is None else 0.0)


class AsyncRingsProducer:
    """`RingsProducer` for asyncio: the same arguments, rules and errors; has an `AsyncProducer` for each ring."""

    def __init__(self, rings: Mapping[str, str], **options: Unpack[ProducerOptions]) -> None:
        """Check the arguments, which `RingsProducer` describes; the first call to a ring connects to that ring only."""
        self._choice = RingChoice(_checked(rings))
        self._producers = {site: AsyncProducer(endpoints, **options) for site, endpoints in rings.items()}

    async def send(self, messages: Iterable[AnyMessage], timeout: float = TIMEOUT) -> Position:
        """Store *messages* as one source transaction of the ring of their keys; see `RingsProducer.send`."""
        held = collected(messages)
        return await self._producers[self._choice.site_for(held)].send(held, timeout)

    async def submit(self, messages: Iterable[AnyMessage], timeout: float = TIMEOUT) -> "asyncio.Future[Produced]":
        """Begin to store *messages* at the ring of their keys; see `AsyncProducer.submit`."""
        held = collected(messages)
        return await self._producers[self._choice.site_for(held)].submit(held, timeout)

    def ring_of(self, key: str) -> str:
        """Return the site id of the ring that takes the partition key *key*."""
        return self._choice.site_of(key)

    def producer_for(self, key: str) -> AsyncProducer:
        """Return the producer of the ring that takes *key*; see `RingsProducer.producer_for`."""
        return self._producers[self.ring_of(key)]

    async def close(self, timeout: float = TIMEOUT) -> None:
        """Wait at most *timeout* seconds for the answers of all rings, then end; see `Producer.close`."""
        await asyncio.gather(*(each.close(timeout) for each in self._producers.values()))

    async def __aenter__(self) -> Self:
        """Return this producer."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all producers; after an error of the block, without waiting for answers."""
        await self.close(TIMEOUT if error is None else 0.0)


def _checked(rings: Mapping[str, str]) -> Mapping[str, str]:
    if not isinstance(rings, Mapping):
        raise ConfigurationError(
            "rings must be a mapping from the site id of each ring to its endpoints: "
            "write {'paris-0': 'tls://a:7400,tls://b:7400,tls://c:7400'}"
        )
    return rings
