"""The CPU time and the memory of processes."""

import os
from contextlib import suppress

import psutil


def used(root: int | None = None) -> float:
    """Return the CPU seconds of a process (by default this one) and its descendants, ended ones included."""
    top = psutil.Process(root or os.getpid())
    total = 0.0
    for process in [top, *top.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def memory(root: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(psutil.Process(root).memory_info().rss)
