"""What processes have used."""

import os
from contextlib import suppress

import psutil


def used(root: int | None = None) -> float:
    """Return the CPU seconds of a process (this one) and all below it, those that have ended included."""
    top = psutil.Process(root or os.getpid())
    total = 0.0
    for process in [top, *top.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def memory(root: int) -> int:
    """Return the bytes that a process holds."""
    return int(psutil.Process(root).memory_info().rss)
