"""The floor of ingest: gRPC's synchronous server, which answers each message of a stream and stores nothing."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Final

import grpc

#: The method that answers each message with an empty reply.
METHOD: Final = "/lrq.Echo/Produce"
_SPAWN = get_context("spawn")


class EchoProcess:
    """A process that answers each message with an empty one."""

    def __init__(self) -> None:
        """Start the process and wait until it serves."""
        self._ours, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        if not self._ours.poll(60):
            raise TimeoutError("the echo server did not start")
        #: The address of the server.
        self.address: str = self._ours.recv()

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def stop(self) -> None:
        """Stop the process."""
        self._ours.close()
        self._process.join(30)
        if self._process.is_alive():
            self._process.kill()


def _serve(told: Connection) -> None:
    server = grpc.server(ThreadPoolExecutor(80))
    handler: Any = grpc.stream_stream_rpc_method_handler(_answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lrq.Echo", {"Produce": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    told.send(f"127.0.0.1:{port}")
    try:
        told.poll(None)
    finally:
        server.stop(0)


def _answer(messages: Iterable[bytes], _context: object) -> Iterator[bytes]:
    for _ in messages:
        yield b""
