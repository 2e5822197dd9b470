"""The producer for threads: one thread of its own speaks with the server."""

import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import grpc

from lr_client.arguments import MAX_PAYLOAD_BYTES, checked_timeout
from lr_client.producer.answers import Produced
from lr_client.producer.desk import METHOD, RequestDesk
from lr_client.producer.encoding import AnyMessage
from lr_client.producer.machine import Reaction
from lr_client.producer.missing_threads import lack_for_stream, start_thread
from lr_client.producer.setup import MAX_IN_FLIGHT, MAX_IN_FLIGHT_BYTES, ProducerLimits, set_up
from queues.clock import SYSTEM_CLOCK
from queues.positions import Position
from queues.thread_lack import reason_of
from sink.transport import channels
from sink.transport.channels import SharedChannel
from sink.transport.ended_calls import let_go
from sink.transport.endpoints import TlsEndpoint

#: The default time limit of a call, in seconds.
TIMEOUT: Final = 5.0


class Producer:
    """Sends messages into the log of a site that has a server with `ingest = true`; needs no database.

    Several threads may share one producer. Requests are stored in the order of the calls. At any time, only one process
    may use a producer's name for a client: two would take each other's numbers. So each process makes its
    own producer, also after a fork.

    The rule of numbers: the site stores each number of a producer once. A request whose answer is lost keeps its number
    and is sent again with it. So no message is stored twice. No later request takes the number of one that may be
    stored. A new producer asks for the last number stored, and goes on after it.

    Example:
        >>> with Producer("tls://paris.example:7400", client="meters", producer="meter-17", tls_certificate="my.pem",
        ...               tls_key="my.key", tls_authority="authority.pem") as producer:
        ...     position = producer.send([(b"21.5", ["tokyo"])], timeout=5)
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
        """Check the arguments; the first call connects.

        *endpoints* are `tcp://host:port`, `tls://host:port` or `ipc:///path`, several between commas; the producer
        goes on to the next one after a failure. `tls://` needs the three files, in PEM. At most *max_in_flight*
        requests of *max_in_flight_bytes* in all are without an answer; a single request may be larger.

        Raises `InvalidNameError` for a malformed name, and `ConfigurationError` for other unusable arguments.
        """
        limits = ProducerLimits(max_payload_bytes, max_in_flight, max_in_flight_bytes)
        setup = set_up(endpoints, client, producer, (tls_certificate, tls_key, tls_authority), limits)
        #: The token of the last request that `send` has stored, for `wait_replicated` and `wait_applied`.
        self.last_token = ""
        self._desk: RequestDesk[Future[Produced]] = RequestDesk(setup, _running_future)
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._call: Any = None

    def send(self, messages: Iterable[AnyMessage], timeout: float = TIMEOUT) -> Position:
        """Store *messages* as one source transaction; return its place in the log of the site.

        All receivers get the messages together and in order, or get none.

        A message is a pair of payload and destinations, or an object such as `ProducerMessage`. Lost answers and
        refusals for now are repeated until *timeout* seconds have passed. The position is `ORIGIN` if an earlier
        attempt stored the request, and its place is not known any more.

        Raises `OutcomeUnknownError` if the request may be stored: the next call repeats the request first. So its
        messages must not be sent again. Other errors mean that nothing of the request is stored. `UsageError` and
        `SetupError` ask for a correction, `TransientError` for another try. `VersionLostError` and
        `ProducerTakenError` end the producer.
        """
        produced = self._finish(self._enter(messages, timeout))
        self.last_token = produced.token
        return produced.position

    def submit(self, messages: Iterable[AnyMessage], timeout: float = TIMEOUT) -> "Future[Produced]":
        """Begin to store *messages* as one source transaction; return a future with number, position and token.

        Many requests may be on their way at once; the site stores them in order. If one is refused for good, the ones
        behind it fail with `TransientError`, and none of them is stored. The future ends with the answer, or with
        `close`, and cannot be cancelled.

        Waits at most *timeout* seconds for room below the limits; raises `TransientError` if there is none.
        """
        return self._enter(messages, timeout)[1]

    def settle(self, timeout: float = TIMEOUT) -> list[Produced]:
        """Repeat the requests whose outcome is unknown until each is answered; return the stored ones, in order.

        Requests that were answered since their calls ended are among them. Raises `OutcomeUnknownError` after *timeout*
        seconds, or else the error of the first one that is not stored. The next call tells the others then. Each
        outcome is told once. Threads settle one after the other. After an end of the producer, known outcomes are told
        first, and its error by the call after that.
        """
        deadline = SYSTEM_CLOCK.monotonic() + checked_timeout(timeout)
        self._desk.owner.check()
        with self._changed:
            in_time = self._changed.wait_for(lambda: not self._desk.is_settling, _bounded(timeout))
            waited = self._desk.begin_settling(in_time=in_time)
            # Outcomes are unknown after requests only, whose calls have started the thread.
            self._changed.notify_all()
        try:
            wait([future for _, future in waited], _bounded(max(0.0, deadline - SYSTEM_CLOCK.monotonic())))
        except BaseException:
            with self._changed:
                self._desk.end_settling(waited)
                self._changed.notify_all()
            raise
        with self._changed:
            self._changed.notify_all()
            return self._desk.settled(waited)

    def last_sequence(self, timeout: float = TIMEOUT) -> int:
        """Return the number of the last request of this producer that is stored; 0 if there is none.

        Requests count from 1. While requests are without an answer, the number may be out of date at once.
        Raises `TransientError` after *timeout* seconds, and the errors of refusals.
        """
        deadline = SYSTEM_CLOCK.monotonic() + checked_timeout(timeout)
        self._desk.owner.check()
        with self._changed:
            self._desk.check()
            self._start()
            key, future = self._desk.ask()
            self._changed.notify_all()
        return self._finish((key, future, deadline)).sequence

    def close(self, timeout: float = TIMEOUT) -> None:
        """Wait at most *timeout* seconds for the answers of all requests, then end. May be called twice.

        Requests without an answer fail: with `OutcomeUnknownError` if they may be stored, else with `TransientError`
        and the reason. In a forked process, the producer of the parent is left alone. Returns at once
        while Python ends.
        """
        longest = _bounded(checked_timeout(timeout))
        # `__del__` may run while Python ends. The thread stands still then, perhaps within its lock.
        if self._desk.owner.is_other or sys.is_finalizing():
            return
        with self._changed:
            self._changed.wait_for(lambda: self._desk.is_closed or not self._desk.machine.has_work(), longest)
            self._desk.close()
            self._changed.notify_all()
            thread, call = self._thread, self._call
        if call is not None:
            call.cancel()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def __enter__(self) -> Self:
        """Return this producer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the producer; after an error of the block, without waiting for answers."""
        self.close(TIMEOUT if error is None else 0.0)

    def _enter(self, messages: Iterable[AnyMessage], timeout: float) -> "tuple[int, Future[Produced], float]":
        deadline = SYSTEM_CLOCK.monotonic() + checked_timeout(timeout)
        content = self._desk.content(messages)
        self._desk.owner.check()
        with self._changed:
            self._desk.check()
            if not self._changed.wait_for(lambda: self._desk.may_enter(len(content)), _bounded(timeout)):
                raise self._desk.no_room()
            self._desk.check()
            self._start()
            key, future = self._desk.submit(content)
            self._changed.notify_all()
        return key, future, deadline

    def _finish(self, entered: "tuple[int, Future[Produced], float]") -> Produced:
        """Wait until the deadline; an interrupted wait, too, leaves no request that is repeated for ever."""
        key, future, deadline = entered
        try:
            wait([future], _bounded(max(0.0, deadline - SYSTEM_CLOCK.monotonic())))
        finally:
            if not future.done():
                with self._changed:
                    self._desk.expire(key)
                    self._changed.notify_all()
        return future.result()

    def _start(self) -> None:
        """Start the thread before the first request is taken: one that was refused must not be sent later."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="lrq-producer", daemon=True)
            start_thread(thread)
            self._thread = thread

    def _run(self) -> None:
        try:
            pause = 0.0
            while self._is_needed(pause):
                pause = self._stream()
        except Exception as error:
            with self._changed:
                self._desk.give_up(error)
                self._changed.notify_all()
            raise

    def _is_needed(self, pause: float) -> bool:
        desk = self._desk
        with self._changed:
            self._changed.wait_for(lambda: desk.is_closed, pause)
            self._changed.wait_for(lambda: desk.is_closed or desk.machine.has_work())
            return not desk.is_closed

    def _stream(self) -> float:
        """Open a stream and follow it to its end; return the seconds until the next one."""
        endpoint = self._desk.setup.order.current
        pems = self._desk.setup.pems if isinstance(endpoint, TlsEndpoint) else None
        if lack := lack_for_stream():
            return self._without_thread(lack)
        shared = channels.take(endpoint.address, pems, self._desk.lane)
        writes = _Writes(self._changed, self._desk)
        is_broken = True
        try:
            call = self._begin(shared, writes)
            try:
                reaction = self._follow(call)
                is_broken = False
            except grpc.RpcError as error:
                let_go(error)
                with self._changed:
                    reaction = self._desk.failed(endpoint, error.code(), error.details() or "")
            finally:
                writes.end()
                call.cancel()
        except RuntimeError as error:
            if lack := reason_of(error):
                return self._without_thread(lack)
            raise
        finally:
            channels.give_back(shared, is_broken=is_broken)
        return self._ended(reaction)

    def _without_thread(self, lack: str) -> float:
        with self._changed:
            return self._ended(self._desk.without_thread(lack))

    def _ended(self, reaction: Reaction) -> float:
        with self._changed:
            self._call = None
            self._changed.notify_all()
            return self._desk.pause_after(reaction)

    def _begin(self, shared: SharedChannel, writes: "_Writes") -> Any:  # noqa: ANN401 - gRPC exports no class
        with self._changed:
            self._desk.machine.connected()
            opened: Any = shared.channel.stream_stream(METHOD)
            with shared.beginning():
                self._call = opened(writes, metadata=self._desk.metadata())
            if self._desk.is_closed:
                # `close` has seen no call to cancel, and waits for this thread.
                self._call.cancel()
            return self._call

    def _follow(self, call: Iterator[bytes]) -> Reaction:
        for raw in call:
            with self._changed:
                reaction = self._desk.take(raw)
                self._changed.notify_all()
            if reaction.ends or self._desk.is_closed:
                return reaction
        with self._changed:
            return self._desk.machine.finished()


class _Writes:
    """The requests of one stream, read by gRPC's thread."""

    def __init__(self, changed: threading.Condition, desk: "RequestDesk[Future[Produced]]") -> None:
        self._changed = changed
        self._desk = desk
        self._ready: deque[bytes] = deque()
        self._is_ended = False

    def __iter__(self) -> "_Writes":
        return self

    def __next__(self) -> bytes:
        with self._changed:
            while not self._is_ended and not self._desk.is_closed:
                if not self._ready:
                    self._ready.extend(self._desk.next_messages())
                if self._ready:
                    return self._ready.popleft()
                self._changed.wait()
        raise StopIteration

    def end(self) -> None:
        """End the stream's requests, so that gRPC's thread ends."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()


def _bounded(seconds: float) -> float:
    """Return *seconds*, infinite ones as the longest wait of a lock."""
    return min(seconds, threading.TIMEOUT_MAX)


def _running_future() -> "Future[Produced]":
    future: Future[Produced] = Future()
    future.set_running_or_notify_cancel()
    return future
