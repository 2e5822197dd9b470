"""A network link of a given rate between two sites of a benchmark: a relay in its own process.

The connections of a link share its rate in turns, as those of a router with fair queues do.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final

_SPAWN: Final = get_context("spawn")
#: The bytes that one connection sends in its turn.
_TURN: Final = 16 * 1024
#: The bytes that wait inside the relay for each connection, and in the socket's buffer of each side.
_BUFFER: Final = 64 * 1024


class Link:
    """The one direction of a link that is limited; used by one event loop."""

    def __init__(self, rate: float) -> None:
        """Let *rate* bytes a second pass."""
        self._rate = rate
        self._turns = asyncio.Lock()
        self._free_at = 0.0

    async def wait_for(self, size: int) -> None:
        """Wait for the turn of *size* bytes; turns are granted in the order of the calls."""
        async with self._turns:
            now = asyncio.get_running_loop().time()
            self._free_at = max(self._free_at, now) + size / self._rate
            if self._free_at > now:
                await asyncio.sleep(self._free_at - now)


class Links:
    """A process with one link to each of some TCP endpoints."""

    def __init__(self, endpoints: Sequence[str], rate: float) -> None:
        """Start the process; `endpoints` are those to connect to instead of *endpoints*."""
        self._ours, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_relay, args=(theirs, list(endpoints), rate), daemon=True)
        self._process.start()
        theirs.close()
        if not self._ours.poll(60):
            raise TimeoutError("the relay did not start")
        #: The relay's endpoints, in the order of the given ones.
        self.endpoints: list[str] = self._ours.recv()

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def _relay(told: Connection, endpoints: list[str], rate: float) -> None:
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(told, endpoints, rate))


async def _serve(told: Connection, endpoints: list[str], rate: float) -> None:
    ports = [await _listen(int(endpoint.rpartition(":")[2]), Link(rate)) for endpoint in endpoints]
    told.send([f"tcp://127.0.0.1:{port}" for port in ports])
    await asyncio.Event().wait()


async def _listen(port: int, link: Link) -> int:
    async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port, limit=_BUFFER)
        await asyncio.gather(_pump(reader, there_writer, link), _pump(there_reader, writer, None))

    server = await asyncio.start_server(joined, "127.0.0.1", 0, limit=_BUFFER)
    return int(server.sockets[0].getsockname()[1])


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link | None) -> None:
    with suppress(OSError):
        while data := await reader.read(_TURN):
            if link is not None:
                await link.wait_for(len(data))
            writer.write(data)
            await writer.drain()
    writer.close()
