"""The producer for asyncio: one task of its own speaks with the server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc.aio

from lr_client.arguments import MAX_PAYLOAD_BYTES, checked_timeout
from lr_client.producer.answers import Produced
from lr_client.producer.desk import METHOD, RequestDesk
from lr_client.producer.encoding import AnyMessage
from lr_client.producer.machine import Reaction
from lr_client.producer.missing_threads import lack_for_stream
from lr_client.producer.setup import MAX_IN_FLIGHT, MAX_IN_FLIGHT_BYTES, ProducerLimits, set_up
from lr_client.producer.sync import TIMEOUT
from queues.errors import UsageError
from queues.positions import Position
from sink.transport.endpoints import IpcEndpoint, TcpEndpoint, TlsEndpoint


class AsyncProducer:
    """`Producer` for asyncio: the same arguments, rules and errors; all calls are made in one event loop.

    A cancelled call does not repeat its request any more. If the request may be stored, the next call repeats it first.

    Example:
        >>> async with AsyncProducer("tcp://127.0.0.1:7400", client="meters", producer="meter-17") as producer:
        ...     position = await producer.send([(b"21.5", ["tokyo"])], timeout=5)
    """

    def __init__(
        self,
        endpoints: str,
        *,
        client: str,
        producer: str,
        tls_certificate: str | Path | None = None,
        tls_key: str | Path | None = None,
        tls_authority: str | Path | None = None,
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
        max_in_flight: int = MAX_IN_FLIGHT,
        max_in_flight_bytes: int = MAX_IN_FLIGHT_BYTES,
    ) -> None:
        """Check the arguments, which `Producer` describes; the first call connects."""
        limits = ProducerLimits(max_payload_bytes, max_in_flight, max_in_flight_bytes)
        setup = set_up(endpoints, client, producer, (tls_certificate, tls_key, tls_authority), limits)
        #: The token of the last request that `send` has stored.
        self.last_token = ""
        self._desk: RequestDesk[asyncio.Future[Produced]] = RequestDesk(setup, _heard_future)
        self._changed = _Signal()
        self._task: asyncio.Task[None] | None = None

    async def send(self, messages: Iterable[AnyMessage], timeout: float = TIMEOUT) -> Position:
        """Store *messages* as one source transaction; see `Producer.send`."""
        deadline = asyncio.get_running_loop().time() + checked_timeout(timeout)
        produced = await self._finish(await self._enter(messages, deadline), deadline)
        self.last_token = produced.token
        return produced.position

    async def submit(self, messages: Iterable[AnyMessage], timeout: float = TIMEOUT) -> "asyncio.Future[Produced]":
        """Begin to store *messages*; wait for room only, and return a future; see `Producer.submit`."""
        deadline = asyncio.get_running_loop().time() + checked_timeout(timeout)
        return (await self._enter(messages, deadline))[1]

    async def settle(self, timeout: float = TIMEOUT) -> list[Produced]:
        """Repeat the requests whose outcome is unknown; see `Producer.settle`."""
        deadline = asyncio.get_running_loop().time() + checked_timeout(timeout)
        self._check_place()
        in_time = await self._changed.until(lambda: not self._desk.is_settling, deadline)
        waited = self._desk.begin_settling(in_time=in_time)
        self._wake()
        try:
            if waited:
                await asyncio.wait(
                    [future for _, future in waited],
                    timeout=max(0.0, deadline - asyncio.get_running_loop().time()),
                )
        except BaseException:
            self._desk.end_settling(waited)
            self._changed.set()
            raise
        self._changed.set()
        return self._desk.settled(waited)

    async def last_sequence(self, timeout: float = TIMEOUT) -> int:
        """Return the number of the last stored request; see `Producer.last_sequence`."""
        deadline = asyncio.get_running_loop().time() + checked_timeout(timeout)
        self._check_place()
        self._desk.check()
        asked = self._desk.ask()
        self._wake()
        return (await self._finish(asked, deadline)).sequence

    async def close(self, timeout: float = TIMEOUT) -> None:
        """Wait at most *timeout* seconds for the answers of all requests, then end; see `Producer.close`."""
        deadline = asyncio.get_running_loop().time() + checked_timeout(timeout)
        machine = self._desk.machine
        if self._desk.owner.is_other:
            return
        if self._task is not None and self._task.get_loop().is_closed():
            self._desk.is_closed = True
            return
        self._check_place()
        try:
            await self._changed.until(lambda: self._desk.is_closed or not machine.has_work(), deadline)
        finally:
            self._desk.close()
            self._changed.set()
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])

    async def __aenter__(self) -> Self:
        """Return this producer."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the producer; after an error of the block, without waiting for answers."""
        await self.close(TIMEOUT if error is None else 0.0)

    async def _enter(self, messages: Iterable[AnyMessage], deadline: float) -> "tuple[int, asyncio.Future[Produced]]":
        content = self._desk.content(messages)
        self._check_place()
        self._desk.check()
        if not await self._changed.until(lambda: self._desk.may_enter(len(content)), deadline):
            raise self._desk.no_room()
        self._desk.check()
        entered = self._desk.submit(content)
        self._wake()
        return entered

    def _check_place(self) -> None:
        """Raise `UsageError` in another process or event loop than that of the first call."""
        self._desk.owner.check()
        if self._task is not None and self._task.get_loop() is not asyncio.get_running_loop():
            raise UsageError(
                "the producer was used in another event loop, and sends nothing here: make a new AsyncProducer "
                "in each loop"
            )

    async def _finish(self, entered: "tuple[int, asyncio.Future[Produced]]", deadline: float) -> Produced:
        """Wait until the deadline; a cancelled wait, too, leaves no request that is repeated for ever."""
        key, future = entered
        try:
            await asyncio.wait([future], timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
        finally:
            if not future.done():
                self._desk.expire(key)
                self._changed.set()
        return future.result()

    def _wake(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="lrq-producer")
        self._changed.set()

    async def _run(self) -> None:
        desk = self._desk
        loop = asyncio.get_running_loop()
        try:
            pause = 0.0
            while not desk.is_closed:
                await self._changed.until(lambda: desk.is_closed, loop.time() + pause)
                await self._changed.until(lambda: desk.is_closed or desk.machine.has_work(), None)
                pause = await self._stream()
        except Exception as error:
            desk.give_up(error)
            self._changed.set()
            raise

    async def _stream(self) -> float:
        """Open a stream and follow it to its end; return the seconds until the next one."""
        endpoint = self._desk.setup.order.current
        if lack := lack_for_stream():
            reaction = self._desk.without_thread(lack)
            self._changed.set()
            return self._desk.pause_after(reaction)
        async with _channel(endpoint, self._desk) as channel:
            self._desk.machine.connected()
            is_ended: list[bool] = []
            opened: Any = channel.stream_stream(METHOD)
            call = opened(self._writes(is_ended), metadata=self._desk.metadata())
            try:
                reaction = await self._follow(call)
            except grpc.aio.AioRpcError as error:
                reaction = self._desk.failed(endpoint, error.code(), error.details() or "")
            finally:
                is_ended.append(True)
                self._changed.set()
                call.cancel()
        self._changed.set()
        return self._desk.pause_after(reaction)

    async def _follow(self, call: Any) -> Reaction:  # noqa: ANN401 - gRPC exports no class
        async for raw in call:
            reaction = self._desk.take(raw)
            self._changed.set()
            if reaction.ends:
                return reaction
        return self._desk.machine.finished()

    async def _writes(self, is_ended: list[bool]) -> AsyncIterator[bytes]:
        while not is_ended and not self._desk.is_closed:
            ready = self._desk.next_messages()
            for message in ready:
                yield message
            if not ready:
                await self._changed.next()


class _Signal:
    """Wakes all waiting tasks of one event loop."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def set(self) -> None:
        for each in self._waiting:
            if not each.done():
                each.set_result(None)
        self._waiting.clear()

    async def next(self, timeout: float | None = None) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(woken)
        try:
            await asyncio.wait([woken], timeout=timeout)
        finally:
            self._waiting.discard(woken)

    async def until(self, is_true: Callable[[], bool], deadline: float | None) -> bool:
        """Wait until *is_true*, at most until *deadline* in the loop's time; return whether it is."""
        while not is_true():
            left = None if deadline is None else deadline - asyncio.get_running_loop().time()
            if left is not None and left <= 0:
                return False
            await self.next(left)
        return True


def _channel(endpoint: TcpEndpoint | IpcEndpoint, desk: "RequestDesk[asyncio.Future[Produced]]") -> grpc.aio.Channel:
    options, pems = desk.channel_options(), desk.setup.pems
    if not isinstance(endpoint, TlsEndpoint) or pems is None:
        return grpc.aio.insecure_channel(endpoint.address, options=options)
    shown = grpc.ssl_channel_credentials(pems.authority, pems.key, pems.certificate)
    return grpc.aio.secure_channel(endpoint.address, shown, options=options)


def _heard_future() -> "asyncio.Future[Produced]":
    """Return a future whose error need not be read: a caller may have been cancelled."""
    future: asyncio.Future[Produced] = asyncio.get_running_loop().create_future()
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future
