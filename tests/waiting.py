"""Wait until a fact is true, without fixed sleeps."""

import threading
from collections.abc import Callable
from typing import TypeVar

from queues.clock import SYSTEM_CLOCK

Fact = TypeVar("Fact")


def eventually(fact: Callable[[], Fact], *, timeout: float = 120.0, interval: float = 0.01) -> Fact:
    """Return the first truthy result of *fact*; fail after *timeout* seconds with the last result in the message."""
    deadline = SYSTEM_CLOCK.monotonic() + timeout
    pause = threading.Event()
    while True:
        result = fact()
        if result:
            return result
        assert SYSTEM_CLOCK.monotonic() < deadline, f"not true after {timeout} s: {fact.__qualname__} was {result!r}"
        pause.wait(interval)
