"""Time and random choice behind one module, so that a test can use another clock."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeVar

Option = TypeVar("Option")
Result = TypeVar("Result")

#: Not the module's own numbers: an application may seed these, and a second process would then choose the same.
RANDOM = random.SystemRandom()


class Clock(Protocol):
    """The clock of code that does I/O; pure modules have none."""

    def now_us(self) -> int:
        """Return the wall-clock time in microseconds since 1970 (UTC)."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back; for durations."""
        ...

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Wait for at most *timeout* seconds until *event* is set; return whether it is set."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now_us(self) -> int:
        """Return the wall-clock time in microseconds since 1970 (UTC)."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """Return seconds that never go back; for durations."""
        return time.monotonic()

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Wait for at most *timeout* seconds until *event* is set; return whether it is set."""
        return event.wait(timeout)


SYSTEM_CLOCK = SystemClock()


def poll(
    look: Callable[[], Result],
    is_done: Callable[[Result], bool],
    *,
    timeout: float,
    pause: float,
    clock: Clock = SYSTEM_CLOCK,
) -> Result:
    """Call *look* every *pause* seconds until *is_done* accepts its result, for at most *timeout* seconds.

    Return the last result; after a timeout, *is_done* has not accepted it. *look* is called at least once.
    """
    deadline = clock.monotonic() + timeout
    never = threading.Event()
    while not is_done(result := look()) and clock.monotonic() < deadline:
        clock.wait(never, pause)
    return result


def now_us() -> int:
    """Return the wall-clock time in microseconds since 1970 (UTC)."""
    return SYSTEM_CLOCK.now_us()


def iso(microseconds: int) -> str:
    """Format microseconds since 1970 as ISO 8601 in UTC, with milliseconds."""
    moment = datetime.fromtimestamp(microseconds / 1_000_000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def jittered(delay: float, spread: float = 0.5) -> float:
    """Return *delay* seconds, shortened at random by at most the fraction *spread*."""
    return delay * (1.0 - spread * RANDOM.random())


def chosen(options: Sequence[Option]) -> Option:
    """Return one of *options* at random."""
    return RANDOM.choice(options)


def seconds_since(moment_us: int) -> float:
    """Return the seconds since *moment_us* of the wall clock, 0 for a later one, in whole milliseconds."""
    return round(max(now_us() - moment_us, 0) / 1_000_000, 3)
