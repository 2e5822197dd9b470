"""Threads that never end in silence: an error that ends one is logged and passed on."""

import threading
from collections.abc import Callable

from queues.errors import ThreadEndedError
from queues.logs import logger
from queues.thread_lack import NO_THREAD, is_lack
from queues.thread_room import end_told
from queues.words import describe

log = logger("lrq.threads")

OnEnded = Callable[[ThreadEndedError], None]


def watched(name: str, work: Callable[[], None], on_ended: OnEnded) -> threading.Thread:
    """Return a new daemon thread that runs *work*.

    The thread's `join` returns at once before the start, if the thread could not start, and in the thread itself.
    An error that ends the thread is logged with its traceback, then *on_ended* gets it in the same thread.
    """
    return _Watched(target=watching(name, work, on_ended), name=name, daemon=True)


class _Watched(threading.Thread):
    """A thread whose owner may end it from within, and where the machine had no thread for it."""

    def start(self) -> None:
        with end_told():
            super().start()

    def join(self, timeout: float | None = None) -> None:
        if self.ident is not None and self is not threading.current_thread():
            super().join(timeout)


def watching(name: str, work: Callable[[], None], on_ended: OnEnded) -> Callable[[], None]:
    """Return *work* with the same guard, for a thread that a library starts."""

    def run() -> None:
        try:
            work()
        except BaseException as error:
            if is_lack(error):
                log.warning("a thread has ended for want of another one", thread=name, reason=NO_THREAD)
            else:
                log.exception("a thread has ended by an error of its own", thread=name)
            on_ended(ended(f"the thread {name}", error))

    return run


def ended(part: str, error: BaseException) -> ThreadEndedError:
    """Return the error that tells that *part* was ended by *error*."""
    told = ThreadEndedError(f"{part} has ended by an error of its own: {describe(error)}")
    told.__cause__ = error
    return told
