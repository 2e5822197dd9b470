"""Tell open tabs that a site was read again: server-sent events, at most a bounded number of streams."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

#: The most open streams; a tab without one loads its page again every 15 seconds.
MOST_STREAMS: Final = 64
#: The time between two signs of life of a stream, and the longest life of one, in seconds.
_HEARTBEAT: Final = 15.0
_LONGEST: Final = 600.0


class Changes:
    """Wakes all streams when a site was read; threads of the watches tell it."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        """Prepare for at most *most* streams."""
        self._most = most
        self._open = 0
        self._number = 0
        self._news: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def open(self) -> int:
        """The number of open streams."""
        return self._open

    @property
    def is_full(self) -> bool:
        """Whether no further stream may open."""
        return self._closed or self._open >= self._most

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use *loop*, in which the streams run."""
        if self._loop is not loop:
            self._loop, self._news = loop, asyncio.Event()

    def tell(self) -> None:
        """Note a change; callable from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self.tell()

    def _wake(self) -> None:
        self._number += 1
        if self._news is not None:
            self._news.set()
            self._news = asyncio.Event()

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield one event for each change until the stream is old, and a comment while there is none."""
        if self.is_full:
            return
        self._open += 1
        try:
            loop = asyncio.get_running_loop()
            until = loop.time() + _LONGEST
            yield b"retry: 3000\n\n"
            while not self._closed and loop.time() < until and self._news is not None:
                try:
                    await asyncio.wait_for(self._news.wait(), _HEARTBEAT)
                except TimeoutError:
                    yield b": alive\n\n"
                else:
                    yield b"event: change\ndata: %d\n\n" % self._number
        finally:
            self._open -= 1
