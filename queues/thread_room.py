"""Whether this process can start a further thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from queues.errors import UsageError
from queues.thread_lack import PYTHON_ENDS, is_end, is_lack


@contextmanager
def end_told() -> Iterator[None]:
    """Start a thread in this block; raise `UsageError` if Python starts none any more, because it ends."""
    try:
        yield
    except RuntimeError as error:
        if is_end(error):
            raise UsageError(PYTHON_ENDS) from error
        raise


def can_start(number: int = 1, name: str = "lrq-room") -> bool:
    """Return whether *number* threads can run beside the present ones; so many start, and end at once.

    Raises `UsageError` while Python ends, because no later call could start one either.
    """
    end = threading.Event()
    started: list[threading.Thread] = []
    try:
        with end_told():
            for _ in range(number):
                thread = threading.Thread(target=end.wait, name=name, daemon=True)
                thread.start()
                started.append(thread)
    except RuntimeError as error:
        if not is_lack(error):
            raise
        return False
    finally:
        end.set()
        for thread in started:
            thread.join()
    return True
