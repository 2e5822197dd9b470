"""Worker processes for contenders without a server."""

from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

_SPAWN = get_context("spawn")


class Told:
    """A worker's line to its parent process, which closes it at the end of the run."""

    def __init__(self, pipe: Connection) -> None:
        """Use one end of a pipe; the parent closes the other end when the run is over."""
        self._pipe = pipe

    def ready(self) -> None:
        """Report that the worker is ready."""
        self._pipe.send("ready")

    def tell(self, words: object) -> None:
        """Report *words* instead of readiness."""
        self._pipe.send(words)

    def over(self, wait: float | None = 0.0) -> bool:
        """Wait at most *wait* seconds (None: without limit); return whether the run is over."""
        return self._pipe.poll(wait)

    def asked(self) -> bool:
        """Wait for a question of the parent; return False once the run is over."""
        try:
            self._pipe.recv()
        except EOFError:
            return False
        return True

    def serve(self, answer: Callable[[], object]) -> None:
        """Send *answer* at each question of the parent, until the run is over."""
        with suppress(EOFError):
            while True:
                self._pipe.recv()
                self._pipe.send(answer())


class Workers:
    """Several worker processes that stop together."""

    def __init__(self) -> None:
        """Start no process yet."""
        self._running: list[tuple[Connection, BaseProcess]] = []

    def start(self, work: Callable[..., None], *given: Any) -> None:  # noqa: ANN401 - passed on
        """Run *work* in a new process; its first argument is a `Told`."""
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_run, args=(theirs, work, given), daemon=True)
        process.start()
        theirs.close()
        self._running.append((ours, process))

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of all workers."""
        return tuple(process.pid for _, process in self._running if process.pid is not None)

    def wait_ready(self) -> list[Any]:
        """Wait until all workers are ready; return their reports."""
        return self.wait_told(60)

    def wait_told(self, timeout: float) -> list[Any]:
        """Return the next report of each worker; raise `TimeoutError` if one says nothing for *timeout* seconds."""
        return [_next_words(pipe, timeout) for pipe, _ in self._running]

    def ask(self, timeout: float) -> list[Any]:
        """Ask each worker, which waits in `Told.asked`; return their reports as `wait_told` does."""
        for pipe, _ in self._running:
            pipe.send("report")
        return self.wait_told(timeout)

    def ask_all(self) -> list[Any]:
        """Return the answers of all workers, which are in `Told.serve`."""
        for pipe, _ in self._running:
            pipe.send("answer")
        return [pipe.recv() for pipe, _ in self._running]

    def stop(self) -> None:
        """Stop all workers; kill those that still run after 10 seconds."""
        for pipe, _ in self._running:
            pipe.close()
        for _, process in self._running:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()


def _next_words(pipe: Connection, timeout: float) -> Any:  # noqa: ANN401 - any report
    if not pipe.poll(timeout):
        raise TimeoutError(f"a worker said nothing for {timeout:g} s")
    return pipe.recv()


def _run(pipe: Connection, work: Callable[..., None], given: tuple[Any, ...]) -> None:
    work(Told(pipe), *given)
