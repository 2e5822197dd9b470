"""Processes that carry entries for contenders which bring no server of their own."""

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

_SPAWN = get_context("spawn")


class Told:
    """What a worker sees of who started it: whether it is over."""

    def __init__(self, pipe: Connection) -> None:
        """Look at one end of a pipe; the other closes when it is over."""
        self._pipe = pipe

    def ready(self) -> None:
        """Say that work begins."""
        self._pipe.send("ready")

    def tell(self, words: object) -> None:
        """Say something else instead."""
        self._pipe.send(words)

    def over(self, wait: float | None = 0.0) -> bool:
        """Wait so long, or for ever; tell whether it is over."""
        return self._pipe.poll(wait)


class Workers:
    """Several processes that end together."""

    def __init__(self) -> None:
        """Start none yet."""
        self._running: list[tuple[Connection, BaseProcess]] = []

    def start(self, work: Callable[..., None], *given: Any) -> None:  # noqa: ANN401 - passed on
        """Run *work*, told first of all when it is over, in a process."""
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_run, args=(theirs, work, given), daemon=True)
        process.start()
        theirs.close()
        self._running.append((ours, process))

    def wait_ready(self) -> list[Any]:
        """Wait until all of them work; return what they said."""
        return [_first_words(pipe) for pipe, _ in self._running]

    def stop(self) -> None:
        """End all."""
        for pipe, _ in self._running:
            pipe.close()
        for _, process in self._running:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()


def _first_words(pipe: Connection) -> Any:  # noqa: ANN401 - whatever it is
    if not pipe.poll(60):
        raise TimeoutError("a worker did not start")
    return pipe.recv()


def _run(pipe: Connection, work: Callable[..., None], given: tuple[Any, ...]) -> None:
    work(Told(pipe), *given)
