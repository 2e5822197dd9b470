"""`exactly_once` refuses functions that it cannot call, and turns their errors into exceptions that Spark reports."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, Engine

from lr_client.spark import SparkSnapshotProvider, exactly_once
from queues.errors import ListenerError, UsageError
from tests.lr_client.spark.sources.applying import apply, streamed, told
from tests.lr_client.spark.sources.test_ended_transactions import Frame


async def later(*_details: object) -> None:
    """Would never be awaited."""


@pytest.mark.parametrize("role", ["apply", "on_snapshot_start", "on_snapshot_complete"])
def test_an_async_function_is_refused(role: str) -> None:
    functions = {"apply": apply, role: later}
    with pytest.raises(UsageError, match=f"{role} is `async def`"):
        exactly_once("test", "sqlite://", **functions)


def test_an_async_build_of_a_snapshot_is_refused() -> None:
    with pytest.raises(UsageError, match="build is `async def`"):
        SparkSnapshotProvider(lambda: None, later)  # type: ignore[arg-type]


def test_a_function_that_returns_a_coroutine_fails_its_batch(sink: Engine) -> None:
    streamed.metadata.create_all(sink)
    with pytest.raises(ListenerError, match="apply returned coroutine: nothing awaits it"):
        exactly_once("test", sink, lambda *_: later())(Frame(), 0)


@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_an_error_that_is_no_exception_fails_its_batch_as_one(sink: Engine, kind: type[BaseException]) -> None:
    streamed.metadata.create_all(sink)

    def end(connection: Connection, entries: Sequence[Any]) -> None:
        apply(connection, entries)
        raise kind

    error = raised_in_thread(lambda: exactly_once("test", sink, end)(Frame(), 0))
    assert isinstance(error, ListenerError)
    assert f"apply or a callback raised {kind.__name__}, which is no Exception: the batch comes again" in str(error)
    assert told(sink) == []
    exactly_once("test", sink, apply)(Frame(), 0)
    assert told(sink) == ["e1", "e2"]


def raised_in_thread(work: Callable[[], None]) -> BaseException | None:
    """Run *work* as Spark runs a batch, in a thread of a library; return its error."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised[0] if raised else None
