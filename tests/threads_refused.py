"""A machine that refuses new threads of some names."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def no_further_thread(*beginnings: str) -> Iterator[None]:
    """Refuse each new thread whose name begins with one of *beginnings*, as a machine at its limit does."""

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith(beginnings):
            raise RuntimeError("can't start new thread")
        started(thread)

    started = threading.Thread.start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        yield
