"""Tell the progress in lines of plain text, with the seconds since the beginning."""

from typing import TextIO

from queues.clock import SYSTEM_CLOCK


class Narrator:
    """Writes to a terminal or a pipe; `seconds` have passed since the beginning."""

    def __init__(self, stream: TextIO) -> None:
        """Write to *stream*."""
        self._stream = stream
        self._began = SYSTEM_CLOCK.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds since the beginning."""
        return SYSTEM_CLOCK.monotonic() - self._began

    def say(self, words: str) -> None:
        """Tell one event of the story."""
        self._write(f"{self.seconds:5.1f} s  {words}")

    def conclude(self, words: str) -> None:
        """Tell one result."""
        self._write(words)

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
