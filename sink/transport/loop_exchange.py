"""The frames and acknowledgements of one stream, in the network's event loop."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar, cast

import grpc
import grpc.aio

from queues.errors import first_line
from queues.wire import replication_pb2 as pb
from sink.rests import Bell, Rest

Result = TypeVar("Result")
Call: TypeAlias = "grpc.aio.StreamStreamCall[bytes, pb.Ack]"

#: The errors of a write to a call that has ended.
_ENDED: Final = (grpc.aio.AioRpcError, asyncio.CancelledError, asyncio.InvalidStateError)


class Exchange:
    """Writes the frames of *steps*, which workers make, and gives each acknowledgement to *note*.

    All methods run in the loop's thread. The frames are made one at a time, and written in their order.
    """

    def __init__(
        self,
        steps: Generator[pb.Frame | Rest, None, None],
        bell: Bell,
        note: Callable[[pb.Ack], bool],
        workers: Executor,
        count_bytes: Callable[[int], None],
    ) -> None:
        self._steps = steps
        self._bell = bell
        self._note = note
        self._workers = workers
        self._count_bytes = count_bytes
        self._rung = asyncio.Event()
        self._is_over = False
        self._is_finished = False
        self._sent = 0
        self._status: tuple[grpc.StatusCode, str] | None = None
        self._writing: asyncio.Future[None] | None = None

    async def carry_out(self, call: Call) -> bool:
        """Exchange until *note* returns False, a refusal comes, or the call ends.

        Return False if the sink has ended the call without an answer for each frame. Raises `AioRpcError` for a call
        that failed; see `first_status`. Raises an error of the frames.
        """
        loop = asyncio.get_running_loop()

        def ring() -> None:
            loop.call_soon_threadsafe(self._rung.set)

        self._bell.pass_on(ring)
        # A failed write replaces the status of a call that the other side has ended: grpc/grpc#36066.
        call.add_done_callback(lambda _: self._keep_status(call))
        self._writing = asyncio.ensure_future(self._write(call))
        answered = 0
        try:
            while isinstance(ack := await call.read(), pb.Ack):
                answered += 1
                if not self._note(ack) or ack.HasField("refusal"):
                    return True
        except (grpc.aio.AioRpcError, asyncio.CancelledError):
            self._check_steps()
            raise
        self._check_steps()
        return self._is_finished and answered >= self._sent

    def first_status(self, error: grpc.aio.AioRpcError | None = None) -> tuple[grpc.StatusCode, str]:
        """Return the first status of the call, which has failed with *error*, and its details in one line."""
        if self._status is not None:
            code, details = self._status
        elif error is not None:
            code, details = error.code(), error.details() or ""
        else:
            code, details = grpc.StatusCode.CANCELLED, ""
        return code, first_line(details)

    def refuse(self, refusal: pb.Refusal) -> None:
        """Give *refusal* to the stream in place of an acknowledgement."""
        self._note(pb.Ack(refusal=refusal))

    async def release(self) -> None:
        """Make no further frame, and end the steps; call this after the end of the call."""
        self._is_over = True
        self._rung.set()
        if self._writing is not None:
            # An error of the steps has been told as that of the stream.
            await asyncio.gather(self._writing, return_exceptions=True)
        try:
            await asyncio.get_running_loop().run_in_executor(self._workers, self._steps.close)
        except RuntimeError:
            # The server has stopped, and its workers with it.
            self._steps.close()

    def _check_steps(self) -> None:
        if self._writing is not None and self._writing.done():
            self._writing.result()

    def _keep_status(self, call: Call) -> None:
        if self._status is None:
            # A task would run too late: the next turn of the loop may replace the status.
            code = _at_once(call.code())
            self._status = None if code is None else (code, _at_once(call.details()) or "")

    async def _write(self, call: Call) -> None:
        """Write until the steps or the call end; raise an error of the steps."""
        loop = asyncio.get_running_loop()
        while not self._is_over:
            self._rung.clear()
            try:
                step = await loop.run_in_executor(self._workers, self._next)
            except Exception:
                # The sink answers the frames of before, as after a usual end.
                with suppress(*_ENDED):
                    await call.done_writing()
                raise
            except BaseException:
                call.cancel()
                raise
            try:
                if step is None:
                    self._is_finished = True
                    await call.done_writing()
                    return
                if isinstance(step, Rest):
                    await self._rest(step.seconds)
                else:
                    self._sent += 1
                    await call.write(step)
            except _ENDED:
                # The call has ended, and its reader tells why.
                return

    def _next(self) -> bytes | Rest | None:
        """Return the next frame as bytes, or a rest; None at the end. For a worker."""
        step = next(self._steps, None)
        if not isinstance(step, pb.Frame):
            return step
        message = step.SerializeToString()
        self._count_bytes(len(message))
        return message

    async def _rest(self, seconds: float) -> None:
        if self._bell.is_set:
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._rung.set)
        try:
            await self._rung.wait()
        finally:
            timer.cancel()


def _at_once(known: Coroutine[Any, Any, Result]) -> Result | None:
    """Return the result of a coroutine that waits for nothing; None if it waits."""
    try:
        known.send(None)
    except StopIteration as end:
        return cast("Result", end.value)
    known.close()
    return None
