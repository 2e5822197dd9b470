"""Small servers, and producers of both kinds behind the same blocking calls."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lr_client.producer import AsyncProducer, Producer
from tests.lr_client.producer.small_server import MemoryLog, SmallServer


class Threaded:
    """A `Producer`."""

    def __init__(self, endpoints: str, **options: Any) -> None:
        self.producer = Producer(endpoints, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.producer, name)

    def result(self, future: Any, timeout: float = 20) -> Any:
        return future.result(timeout)


class Blocking:
    """An `AsyncProducer` whose event loop runs during calls."""

    def __init__(self, endpoints: str, **options: Any) -> None:
        self._runner = asyncio.Runner()
        try:
            self.producer = self._runner.run(self._made(endpoints, options))
        except BaseException:
            self._runner.close()
            raise

    async def _made(self, endpoints: str, options: dict[str, Any]) -> AsyncProducer:
        return AsyncProducer(endpoints, **options)

    @property
    def last_token(self) -> str:
        return self.producer.last_token

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.producer, name)
        return lambda *args, **options: self._runner.run(call(*args, **options))

    def result(self, future: Any, timeout: float = 20) -> Any:
        async def waited() -> Any:
            return await asyncio.wait_for(asyncio.shield(future), timeout)

        return self._runner.run(waited())

    def end(self) -> None:
        self._runner.close()


@pytest.fixture
def new_server() -> Iterator[Callable[..., SmallServer]]:
    """Give a function that starts a server."""
    made: list[SmallServer] = []

    def start(log: MemoryLog | None = None, **options: Any) -> SmallServer:
        made.append(SmallServer(log, **options))
        return made[-1]

    yield start
    for each in made:
        each.stop()


@pytest.fixture
def server(new_server: Callable[..., SmallServer]) -> SmallServer:
    """Give a server."""
    return new_server()


@pytest.fixture(params=[Threaded, Blocking], ids=["threads", "asyncio"])
def new_producer(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Give a function that makes a producer of either kind for endpoints between commas."""
    made: list[Any] = []

    def make(endpoints: str, **options: Any) -> Any:
        made.append(request.param(endpoints, **{"client": "meters", "producer": "meter-17", **options}))
        return made[-1]

    yield make
    for each in made:
        each.close(0)
        if isinstance(each, Blocking):
            each.end()
