"""The event loop of a process begins once the machine has a thread for it."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sink.transport import network_loop
from sink.transport.endpoints import TcpEndpoint
from sink.transport.loop_sink import LoopSink


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let no loop run, and no thread start; the patch ends the refusals with `undo`."""
    for name in ("_loop", "_thread"):
        monkeypatch.setattr(network_loop, name, None)
    with monkeypatch.context() as patch:

        def refuse(_thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        patch.setattr(threading.Thread, "start", refuse)
        yield patch
    if network_loop._loop is not None and network_loop._thread is not None:
        network_loop._loop.call_soon_threadsafe(network_loop._loop.stop)
        network_loop._thread.join()
        network_loop._loop.close()


async def five() -> int:
    return 5


def test_a_loop_without_a_thread_is_begun_again_by_the_next_call(refused: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="can't start new thread"):
        network_loop.run(five())
    refused.undo()
    assert asyncio.run_coroutine_threadsafe(five(), network_loop.running()).result(20) == 5


def test_the_close_of_an_unused_sink_needs_no_loop(refused: pytest.MonkeyPatch) -> None:
    with ThreadPoolExecutor(1) as workers:
        LoopSink(TcpEndpoint("127.0.0.1", 1), workers).close()
    assert not network_loop.has_begun()
