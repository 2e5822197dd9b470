"""The pauses of a stream that has nothing to send; no thread is needed meanwhile."""

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rest:
    """A stream goes on after so many seconds, or once its bell is set."""

    seconds: float


class Bell:
    """Ends the rest of one stream. For any number of threads."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._tell: Callable[[], None] | None = None

    def set(self) -> None:
        """End the present rest, or the next one if no `clear` comes before; does not wait."""
        self._event.set()
        if (tell := self._tell) is not None:
            tell()

    def clear(self) -> None:
        """Let the next rest last, unless `set` is called from now on; for the stream, before it looks for work."""
        self._event.clear()

    def wait(self, seconds: float) -> None:
        """Rest in this thread."""
        self._event.wait(seconds)

    @property
    def is_set(self) -> bool:
        """Whether the next rest is over already."""
        return self._event.is_set()

    def pass_on(self, tell: Callable[[], None]) -> None:
        """Call *tell* at each `set` from now on; *tell* must not wait."""
        self._tell = tell
