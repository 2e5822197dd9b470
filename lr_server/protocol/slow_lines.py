"""Slow lines: a large frame needs its time on the way, and its sink answers nothing meanwhile. Pure."""

from typing import Final

#: The slowest line that carries frames of any size, in bytes a second (64 kbit/s).
SLOWEST: Final = 8 * 1024
#: A stream without an answer for so many seconds may have a slow line.
SUSPECTED_AFTER: Final = 5.0


def stalled_after(stall_seconds: float, oldest_bytes: int) -> float:
    """Return the seconds without an answer after which a stream is stalled; its oldest frame has *oldest_bytes*."""
    return stall_seconds + oldest_bytes / SLOWEST


def is_suspected(silent_seconds: float, bytes_in_flight: int) -> bool:
    """Return whether the line of a stream may be slow that ends after *silent_seconds* with *bytes_in_flight*.

    Even the slowest line soon carries a few bytes. So a silent line with small frames is cut, as by a firewall that
    forgets quiet connections. The next loss should be noticed as soon as this one.

    A sink that stands still is as silent. But then the next negotiation fails, so no stream waits for it.
    """
    return silent_seconds >= SUSPECTED_AFTER and bytes_in_flight >= SUSPECTED_AFTER * SLOWEST
