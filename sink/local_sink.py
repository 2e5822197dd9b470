"""The sink of a site in this process, whose streams have threads only while they have work."""

import asyncio
import math
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor
from typing import Final
from weakref import WeakSet

from queues.clock import SYSTEM_CLOCK, Clock
from queues.errors import PeerUnreachableError
from queues.wire import replication_pb2 as pb
from sink.port import Sink
from sink.rests import Bell, Rest
from sink.transport import network_loop

#: A stream without entries for so many seconds gives its thread back.
LINGER_SECONDS: Final = 1.0


class LocalSink:
    """See `RestingSink`; the connection of one session to a sink that answers each frame at once."""

    def __init__(self, sink: Sink, workers: Executor, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Give the frames to *sink*; the threads of *workers* look for them while a stream has no thread."""
        self._sink = sink
        self._workers = workers
        self._clock = clock
        self._guard = threading.Lock()
        self._bells = WeakSet[Bell]()
        self._is_closed = False

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        """See `Sink`."""
        self._require_open()
        return self._sink.negotiate(request)

    def exchange(
        self,
        steps: Generator[pb.Frame | Rest, None, None],
        bell: Bell,
        note: Callable[[pb.Ack], bool],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        """See `RestingSink`."""
        with self._guard:
            self._bells.add(bell)
        stream = _Stream(self._sink, steps, bell, note, self._require_open, self._clock)
        network_loop.begin(stream.carry_out(self._workers, ended))

    def close(self) -> None:
        """See `Sink`; others go on with the sink itself."""
        with self._guard:
            self._is_closed = True
            bells = tuple(self._bells)
        # A frame may be on its way in the sink.
        self._sink.close()
        for bell in bells:
            bell.set()

    def _require_open(self) -> None:
        if self._is_closed:
            raise PeerUnreachableError("the connection within this process was closed")


class _Stream:
    """Stores the frames of *steps* one at a time, while they come in a thread of its own.

    `carry_out` runs in the event loop of this process, which waits for the end of each longer rest. Workers then look
    for the next frame.
    """

    def __init__(
        self,
        sink: Sink,
        steps: Generator[pb.Frame | Rest, None, None],
        bell: Bell,
        note: Callable[[pb.Ack], bool],
        require_open: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._acks = sink.replicate(self._given())
        self._frame: pb.Frame | None = None
        self._steps = steps
        self._bell = bell
        self._note = note
        self._require_open = require_open
        self._clock = clock
        self._rung = asyncio.Event()
        self._is_resting = False

    async def carry_out(self, workers: Executor, ended: Callable[[BaseException | None], None]) -> None:
        """Store all frames, and then call *ended*."""
        error: BaseException | None = None
        try:
            await self._store_all(workers)
        except BaseException as failed:  # noqa: BLE001 - the end of the stream, which its session shows
            error = failed
        try:
            ended(error)
        finally:
            await self._release(workers)

    async def _store_all(self, workers: Executor) -> None:
        loop = asyncio.get_running_loop()

        def ring() -> None:
            # The thread of the stream needs no help of the loop.
            if self._is_resting:
                loop.call_soon_threadsafe(self._rung.set)

        self._bell.pass_on(ring)
        step = await loop.run_in_executor(workers, self._next)
        while step is not None:
            if isinstance(step, Rest):
                await self._rest(step.seconds)
                step = await loop.run_in_executor(workers, self._next)
            else:
                step = await self._work_in_thread(step)

    async def _rest(self, seconds: float) -> None:
        self._rung.clear()
        self._is_resting = True
        timer = asyncio.get_running_loop().call_later(seconds, self._rung.set)
        try:
            # The bell may have rung while the stream did not rest yet.
            if not self._bell.is_set:
                await self._rung.wait()
        finally:
            self._is_resting = False
            timer.cancel()

    async def _work_in_thread(self, frame: pb.Frame) -> Rest | None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Rest | None] = loop.create_future()

        def work() -> None:
            try:
                rest = self._work(frame)
            except BaseException as error:  # noqa: BLE001 - the end of the stream
                loop.call_soon_threadsafe(done.set_exception, error)
            else:
                loop.call_soon_threadsafe(done.set_result, rest)

        name = f"lrq-stream-{frame.session.client}-{frame.session.sink}"
        threading.Thread(target=work, name=name, daemon=True).start()
        return await done

    def _work(self, frame: pb.Frame) -> Rest | None:
        """Store *frame* and those that follow; return the rest after which no thread is needed, or None at the end."""
        step: pb.Frame | Rest | None = frame
        stays_until = -math.inf
        while step is not None:
            if isinstance(step, Rest):
                if (left := self._rest_here(step.seconds, stays_until)) > 0:
                    return Rest(left)
            elif not self._is_stored(step):
                return None
            elif _has_rows(step):
                stays_until = self._clock.monotonic() + LINGER_SECONDS
            step = self._next()
        return None

    def _rest_here(self, seconds: float, stays_until: float) -> float:
        """Rest in this thread while it stays; return the seconds that are left of the rest."""
        here = min(seconds, max(stays_until - self._clock.monotonic(), 0.0))
        if here:
            self._bell.wait(here)
        return 0.0 if self._bell.is_set else seconds - here

    def _is_stored(self, frame: pb.Frame) -> bool:
        """Let the sink take *frame*; return whether the stream goes on."""
        self._frame = frame
        ack = next(self._acks, None)
        return ack is not None and self._note(ack) and not ack.HasField("refusal")

    def _next(self) -> pb.Frame | Rest | None:
        self._require_open()
        step = next(self._steps, None)
        if isinstance(step, Rest):
            # The steps may have cleared the bell of a `close` meanwhile.
            self._require_open()
        return step

    def _given(self) -> Iterator[pb.Frame]:
        while (frame := self._frame) is not None:
            self._frame = None
            yield frame

    async def _release(self, workers: Executor) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(workers, self._close)
        except RuntimeError:
            # The server has stopped, and its workers with it.
            self._close()

    def _close(self) -> None:
        self._steps.close()
        if close := getattr(self._acks, "close", None):
            close()


def _has_rows(frame: pb.Frame) -> bool:
    """Return whether *frame* brings entries or a part of a snapshot, which others follow soon."""
    return not frame.HasField("batch") or any(group.block.rows for group in frame.batch.groups)
