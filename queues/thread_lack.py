"""The lack of a thread, in words. Pure."""

from typing import Final

#: The end of a sentence about a process that can start no further thread.
LACKS_THREADS: Final = (
    "can start no further thread: raise its limit (ulimit -u, TasksMax of its systemd unit, pids of its container), or "
    "give the machine more memory"
)
#: The sentence about this process.
NO_THREAD: Final = f"this process {LACKS_THREADS}"
#: The sentence about a process that ends; Python 3.12.1 starts no thread after the end of the main thread.
PYTHON_ENDS: Final = (
    "Python ends and starts no further thread: call lrq before the main thread ends, and not in a function of atexit"
)


def is_lack(error: BaseException) -> bool:
    """Return whether *error* tells that no thread could start."""
    return isinstance(error, RuntimeError) and str(error).startswith("can't start new thread")


def is_end(error: BaseException) -> bool:
    """Return whether *error* tells that no thread will start any more, because Python ends."""
    return isinstance(error, RuntimeError) and str(error).startswith("can't create new thread at interpreter shutdown")


def reason_of(error: BaseException) -> str:
    """Return the sentence about the thread that did not start; "" for an error of another kind."""
    if is_end(error) or str(error) == PYTHON_ENDS:
        return PYTHON_ENDS
    return NO_THREAD if is_lack(error) else ""
