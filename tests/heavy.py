"""Slow tests, whose files come first. A test that starts processes or Spark is heavy: few of them run at once."""

import fcntl
import os
import random
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from queues.clock import SYSTEM_CLOCK

#: How many of these tests run at once on this machine. More would starve each other's leases and timeouts.
AT_ONCE = (os.cpu_count() or 1) + 1
_PAUSE = 0.1
#: Folders of tests that run servers, subscribers, commands or pages. Tests of the queues below check both databases.
_END_TO_END = ("faults", "lr_client/snapshot", "lr_client/spark", "lr_client/subscriber", "lrq", "system", "upgrades")


def is_heavy(item: pytest.Item) -> bool:
    """Whether a test starts processes or Spark."""
    return any(item.get_closest_marker(name) for name in ("processes", "spark"))


def is_slow(item: pytest.Item) -> bool:
    """Whether a test may take a second or more."""
    end_to_end = item.nodeid.startswith(tuple(f"tests/{folder}/" for folder in _END_TO_END))
    return end_to_end or is_heavy(item) or item.get_closest_marker("long") is not None


def slow_files_first(items: list[pytest.Item]) -> None:
    """Move the files with a slow test to the front, so that the end of a run is quick."""
    slow = {item.path for item in items if is_slow(item)}
    items.sort(key=lambda item: item.path not in slow)


@contextmanager
def heavy_place() -> Iterator[None]:
    """Wait until fewer than `AT_ONCE` of these tests run, in all processes of the machine."""
    files = [Path(tempfile.gettempdir()) / f"lrq-tests-{os.getuid()}-{number}.lock" for number in range(AT_ONCE)]
    while True:
        random.shuffle(files)
        for file in files:
            with file.open("a") as opened:
                try:
                    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield
                return
        SYSTEM_CLOCK.wait(threading.Event(), _PAUSE)
