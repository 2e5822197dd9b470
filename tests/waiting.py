"""Wait until a fact is true, without fixed sleeps."""

import threading
from collections.abc import Callable
from typing import TypeVar

from queues.clock import SYSTEM_CLOCK

Fact = TypeVar("Fact")
_LONGEST_PAUSE = 0.25


def eventually(fact: Callable[[], Fact], *, timeout: float = 120.0, interval: float = 0.01) -> Fact:
    """Return the first truthy result of *fact*; fail after *timeout* seconds with the last result in the message.

    The pauses grow from *interval* to a tenth of the time waited, at most 0.25 seconds.
    """
    began = SYSTEM_CLOCK.monotonic()
    pause = threading.Event()
    while True:
        result = fact()
        if result:
            return result
        waited = SYSTEM_CLOCK.monotonic() - began
        assert waited < timeout, f"not true after {timeout} s: {fact.__qualname__} was {result!r}"
        pause.wait(max(interval, min(waited / 10, _LONGEST_PAUSE)))
