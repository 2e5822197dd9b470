"""The threads for calls of a server: a lack of threads delays calls, and ends no server."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from queues.logs import logger
from queues.thread_lack import NO_THREAD, is_lack
from queues.thread_room import can_start

log = logger("lrq.sink")


class CallThreads(ThreadPoolExecutor):
    """Runs calls; one without a thread waits until a thread is free, or `retry` can start one.

    gRPC's own thread, which takes all calls, ends by an error of `submit`. The server would then listen for ever, and
    answer nothing.
    """

    def __init__(self, workers: int) -> None:
        """Start at most *workers* threads, each for a call that finds none free."""
        super().__init__(workers, thread_name_prefix="lrq-sink")
        self._lock = threading.Lock()
        self._missing = 0

    @property
    def trouble(self) -> str:
        """The reason why calls wait, in one sentence; empty if none waits for a thread that cannot start."""
        return NO_THREAD if self._missing else ""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":  # noqa: ANN401 - as the base
        """Run *fn* in a thread; return a future that ends with the run, without the result."""
        done: Future[Any] = Future()

        def run() -> None:
            try:
                fn(*args, **kwargs)
            finally:
                done.set_result(None)

        try:
            super().submit(run)
        except RuntimeError as error:
            if not is_lack(error):
                raise
            # The base has put the run into its queue before.
            self._miss()
        return done

    def retry(self) -> None:
        """Start the threads that could not start, as far as possible now."""
        while self._missing and can_start():
            self._found()
            self.submit(_nothing)

    def _miss(self) -> None:
        with self._lock:
            self._missing += 1
            is_first = self._missing == 1
        if is_first:
            log.warning("calls wait for a thread", reason=NO_THREAD)

    def _found(self) -> None:
        with self._lock:
            self._missing -= 1
            is_over = not self._missing
        if is_over:
            log.info("threads can start again")


def _nothing() -> None:
    pass
