"""Wait for a fact of another process."""

import threading
from collections.abc import Callable
from time import perf_counter

from queues.clock import SYSTEM_CLOCK

_LOOK = 0.05
_PATIENCE = 1800.0
_NEVER = threading.Event()


def until(fact: Callable[[], bool], patience: float = _PATIENCE) -> None:
    """Return as soon as *fact* is true; raise `TimeoutError` after *patience* seconds."""
    give_up = perf_counter() + patience
    while not fact():
        if perf_counter() > give_up:
            raise TimeoutError(f"the condition was still false after {patience:.0f} s")
        SYSTEM_CLOCK.wait(_NEVER, _LOOK)
