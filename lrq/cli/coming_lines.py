"""The lines of a file or pipe. A pipe without a line now is told, so its reader can do other work meanwhile."""

import os
import select
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Final

_CHUNK: Final = 65536


@dataclass(frozen=True, slots=True)
class NoLineYet:
    """A pipe, socket or terminal that has no further bytes now."""

    descriptor: int

    def ends_within(self, seconds: float | None) -> bool:
        """Wait for further bytes, or for the end of the stream, for up to *seconds*; None stands for no limit."""
        return bool(select.select([self.descriptor], [], [], seconds)[0])


def coming_lines(source: IO[bytes], longest: int) -> Iterator[bytes | NoLineYet]:
    """Yield each line of *source*, with its end, and a `NoLineYet` for each moment without a whole line.

    Of a line with more than *longest* bytes only the first ones are yielded, and none after it.
    """
    descriptor = _quiet_descriptor(source)
    if descriptor is None:
        yield from iter(lambda: source.readline(longest + 1), b"")
        return
    begun: list[bytes] = []
    size = 0
    while True:
        quiet = NoLineYet(descriptor)
        if not quiet.ends_within(0):
            yield quiet
            continue
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            continue
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join((*begun, line, b"\n"))
            begun, size = [], 0
        begun.append(rest)
        size += len(rest)
        if size > longest or not chunk:
            if size:
                yield b"".join(begun)
            return


def _quiet_descriptor(source: IO[bytes]) -> int | None:
    """Return the descriptor of a stream that may be quiet; None for a file on a disk, and for no real stream."""
    try:
        descriptor = source.fileno()
    except OSError:
        return None
    return None if stat.S_ISREG(os.fstat(descriptor).st_mode) else descriptor
