"""The events of one session in their order, and the threads that take them.

Most events of a working session are acknowledgements: they change facts, and ask for nothing that waits. So the thread
that brings an event takes it. The session has a thread of its own only while there is work that may wait.
"""

import math
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from discovery.threads import OnEnded, watching
from lr_server.protocol.events import Event, RetryDue
from lr_server.session.stream import FrameStream
from queues.clock import Clock
from queues.errors import ThreadEndedError

#: The pause between two looks of `Turns.join` for work without a thread, in seconds.
_LOOK: Final = 0.5
#: The work for an event that may wait; None if the event is done.
SlowWork = Callable[[], None] | None
Taken = tuple[Event, FrameStream | None]


class Turns:
    """Lets one thread at a time take the events of a session, in their order. Safe for any number of threads.

    *take* must not wait. The slow work that it returns runs before the next event, in the session's own thread. After
    an error in either of them, and after `end`, no event counts: *finish* runs, and then `join` returns.
    """

    def __init__(
        self,
        name: str,
        take: Callable[[Event, FrameStream | None], SlowWork],
        finish: Callable[[], None],
        clock: Clock,
        on_ended: OnEnded,
        *,
        patience: float,
    ) -> None:
        """Call the session's thread *name*; *on_ended* gets an error of *take* or of slow work.

        The thread waits for the next try at most *patience* seconds; `retry_if_due` begins a later one.
        """
        self._patience = patience
        self._name = name
        self._take = take
        self._finish = finish
        self._clock = clock
        self._on_ended = on_ended
        self._begin_here = watching(name, self._take_here, self._end_by)
        self._work_off = watching(name, self._take_in_own_thread, self._end_by)
        self._thread: threading.Thread | None = None
        self._events: deque[Taken] = deque()
        self._retry_at: float | None = None
        self._slow: SlowWork = None
        # A thread has the turn, or will have it once `_slow` has a thread.
        self._is_busy = False
        # The machine had no thread for `_slow`.
        self._lacks_thread = False
        self._is_over = False
        self._ended = threading.Event()
        self._changed = threading.Condition()

    def post(self, event: Event | None, stream: FrameStream | None = None) -> None:
        """Take *event*, if there is one, after all earlier ones; an event of a *stream* names that stream."""
        if event is None:
            return
        with self._changed:
            if self._is_over:
                return
            self._events.append((event, stream))
            if self._is_busy:
                self._changed.notify_all()
                return
            self._is_busy = True
        self._begin_here()

    def retry_after(self, seconds: float) -> None:
        """Take `RetryDue` after *seconds* without another event; for slow work."""
        self._retry_at = self._clock.monotonic() + seconds

    def retry_if_due(self) -> None:
        """Take `RetryDue` if its time has come, and no thread waits for it."""
        if self._retry_at is None:
            return
        with self._changed:
            if self._is_over or self._is_busy or self._until_retry() > 0:
                return
            self._retry_at = None
            self._events.append((RetryDue(), None))
            self._is_busy = True
        self._begin_here()

    def end(self) -> None:
        """Take no further event; for *take* and for slow work."""
        with self._changed:
            self._is_over = True
            self._events.clear()

    def look_for_thread(self) -> None:
        """Try again to start a thread that the machine has refused; raise the machine's `RuntimeError`."""
        if self._takes_lack():
            self._start()

    def join(self) -> None:
        """Wait for the end, and for *on_ended*; without a thread, the work that is left runs here."""
        while not self._ended.is_set():
            # Another thread that has the turn now may find no thread for the last work.
            if self._takes_lack():
                self._work_off()
            self._ended.wait(_LOOK)
        if self._thread is not None:
            self._thread.join()

    def _takes_lack(self) -> bool:
        with self._changed:
            lacked, self._lacks_thread = self._lacks_thread, False
            return lacked

    def _take_here(self) -> None:
        """Take the events until one has slow work, which gets a thread."""
        while not self._is_over:
            if (taken := self._next(0.0)) is None:
                return
            self._slow = self._take(*taken)
            if self._slow is not None:
                # `look_for_thread` tries again, and its caller shows the error.
                with suppress(RuntimeError):
                    self._start()
                return
        self._close()

    def _take_in_own_thread(self) -> None:
        """Carry out the slow work of an event, and take the events that follow."""
        while not self._is_over:
            work, self._slow = self._slow, None
            if work is not None:
                work()
            elif (taken := self._next(self._patience)) is not None:
                self._slow = self._take(*taken)
            else:
                return
        self._close()

    def _start(self) -> None:
        thread = threading.Thread(target=self._work_off, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._lacks_thread = True
            raise
        self._thread = thread

    def _close(self) -> None:
        self._finish()
        self._ended.set()

    def _end_by(self, error: ThreadEndedError) -> None:
        try:
            self.end()
            self._finish()
        finally:
            self._on_ended(error)
            self._ended.set()

    def _next(self, patience: float) -> Taken | None:
        """Return the next event, or the retry if it is due in *patience* seconds. After None the turn is over."""
        with self._changed:
            while not self._events:
                pause = self._until_retry()
                if pause > patience:
                    self._is_busy = False
                    return None
                if pause <= 0:
                    self._retry_at = None
                    return RetryDue(), None
                self._changed.wait(pause)
            return self._events.popleft()

    def _until_retry(self) -> float:
        """Return the seconds until the next try; infinite without one."""
        return math.inf if self._retry_at is None else self._retry_at - self._clock.monotonic()
