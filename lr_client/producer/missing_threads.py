"""Threads that a producer cannot start: the machine has none left, or Python ends."""

import threading

from queues.errors import TransientError, UsageError
from queues.thread_lack import NO_THREAD, is_lack
from queues.thread_room import end_told
from sink.transport import core_room


def start_thread(thread: threading.Thread) -> None:
    """Start the thread of a producer; raise the error for the caller if none can start."""
    try:
        with end_told():
            thread.start()
    except RuntimeError as error:
        if is_lack(error):
            raise TransientError(f"nothing was stored, send it again: {NO_THREAD}") from error
        raise


def lack_for_stream() -> str:
    """Return the reason why gRPC's threads cannot start now; "" if they can."""
    try:
        return "" if core_room.is_enough() else NO_THREAD
    except UsageError as error:
        return str(error)
