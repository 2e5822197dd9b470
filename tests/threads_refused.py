"""A machine, or a Python that ends, refuses new threads of some names."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

#: The words of Python on a machine at its limit.
AT_ITS_LIMIT = "can't start new thread"
#: The words of Python while it ends.
ENDING = "can't create new thread at interpreter shutdown"
#: The beginning of the names of gRPC's own threads, which are Python's.
OF_GRPC = "Thread-"


@contextmanager
def no_further_thread(*beginnings: str, words: str = AT_ITS_LIMIT) -> Iterator[None]:
    """Refuse each new thread whose name begins with one of *beginnings*, as a machine at its limit does."""

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith(beginnings):
            raise RuntimeError(words)
        started(thread)

    started = threading.Thread.start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        yield
