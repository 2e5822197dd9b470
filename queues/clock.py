"""Time and chance come from here, so that everything else can be given another clock."""

import random
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeVar

Option = TypeVar("Option")


class Clock(Protocol):
    """What the edge may ask of time."""

    def now_us(self) -> int:
        """Wall-clock time in microseconds since 1970 (UTC)."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, for durations."""
        ...

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Wait until *event* is set, at most *timeout* seconds; tell whether it is."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_us(self) -> int:
        """Wall-clock time in microseconds since 1970 (UTC)."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """Seconds that only grow, for durations."""
        return time.monotonic()

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Wait until *event* is set, at most *timeout* seconds; tell whether it is."""
        return event.wait(timeout)


SYSTEM_CLOCK = SystemClock()


def now_us() -> int:
    """Wall-clock time in microseconds since 1970 (UTC)."""
    return SYSTEM_CLOCK.now_us()


def iso(microseconds: int) -> str:
    """Show microseconds since 1970 as ISO 8601 in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(microseconds / 1_000_000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def jittered(delay: float, spread: float = 0.5) -> float:
    """Return *delay* seconds, shortened at random by up to the share *spread*."""
    return delay * (1.0 - spread * random.random())


def chosen(options: Sequence[Option]) -> Option:
    """Return one of *options* at random."""
    return random.choice(options)
