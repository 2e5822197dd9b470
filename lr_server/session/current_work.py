"""The work of one stream now: its session replaces it at any time, and its frames follow."""

import threading
from collections.abc import Callable, Generator

from lr_server.session.stream_context import StreamContext
from lr_server.session.work import Work
from sink.rests import Rest

#: The longest sleep of a sender without work, in seconds; each change of the work sets the bell.
_IDLE = 60.0


class CurrentWork:
    """The work of one stream, or None. A change does not wait, and ends the stream's rest.

    After `finish` no work is wanted. After `close` no event of the stream counts either.
    """

    def __init__(self, context: StreamContext) -> None:
        """Begin without work."""
        self._context = context
        self._bell = context.inflight.bell
        self._work: Work | None = None
        self._is_finishing = False
        self._is_closed = False
        self._guard = threading.Lock()

    @property
    def now(self) -> Work | None:
        """The work of which the next acknowledgement tells."""
        return self._work

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def assign(self, work: Work | None) -> None:
        """Replace the work by *work*, with an empty window."""
        with self._guard, self._context.inflight.begun_anew():
            self._work = work
            self._context.replaced.begin()
            self._context.traffic.begin()
        self._context.paths.outgoing.leave()

    def finish(self) -> None:
        """Want no work any more, and keep the frames in flight."""
        with self._guard:
            self._is_finishing = True
        self._end_waits()

    def close(self) -> None:
        """Want no work any more, and forget the frames in flight."""
        with self._guard:
            self._is_closed = True
            self._work = None
        self._end_waits()

    def _end_waits(self) -> None:
        self._bell.set()
        self._context.paths.outgoing.leave()

    def wants(self, work: Work) -> Callable[[], bool]:
        """Return a function that tells whether *work* is still to be done."""
        return lambda: not (self._is_closed or self._is_finishing) and self._work is work

    def following(self, done: Work | None = None) -> Generator[Rest, None, Work | None]:
        """Wait for work other than *done*; None once no work is wanted any more."""
        while True:
            self._bell.clear()
            with self._guard:
                if self._is_closed or self._is_finishing:
                    return None
                if self._work is not None and self._work is not done:
                    return self._work
            yield Rest(_IDLE)
