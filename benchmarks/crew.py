"""Application processes that are started once and run one task after the other."""

from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self

from queues.clock import SYSTEM_CLOCK

_SPAWN = get_context("spawn")

#: A task is called with the moment of its begin (monotonic), the number of its process, and further arguments.
Task = Callable[..., Any]


class Crew:
    """Several processes that run a task at the same time."""

    def __init__(self, size: int) -> None:
        """Start *size* processes."""
        self._pipes = []
        self._processes = []
        for number in range(size):
            ours, theirs = _SPAWN.Pipe()
            process = _SPAWN.Process(target=_work, args=(theirs, number), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def do(self, workers: int, task: Task, *given: object) -> list[Any]:
        """Run a task in *workers* processes at once; return their results, or raise the first error."""
        pipes = self._pipes[:workers]
        for pipe in pipes:
            pipe.send((task, given))
        for pipe in pipes:
            pipe.recv()  # ready
        begin = SYSTEM_CLOCK.monotonic() + 0.05
        for pipe in pipes:
            pipe.send(begin)
        found: dict[Connection, Any] = {}
        while len(found) < len(pipes):
            for done in wait([pipe for pipe in pipes if pipe not in found]):
                assert isinstance(done, Connection)
                found[done] = done.recv()
        failed = [each for each in found.values() if isinstance(each, Exception)]
        if failed:
            raise failed[0]
        return list(found.values())

    def __enter__(self) -> Self:
        """Return the crew."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes."""
        with ExitStack() as stack:
            for pipe, process in zip(self._pipes, self._processes, strict=True):
                pipe.close()
                stack.callback(process.join, 10)


def _work(pipe: Connection, number: int) -> None:
    while True:
        try:
            task, given = pipe.recv()
        except EOFError:
            return
        pipe.send("ready")
        begin = pipe.recv()
        try:
            pipe.send(task(begin, number, *given))
        except Exception as error:  # noqa: BLE001 - raised by `do`
            pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))
