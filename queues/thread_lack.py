"""The lack of a thread, in words. Pure."""

from typing import Final

#: The end of a sentence about a process that can start no further thread.
LACKS_THREADS: Final = (
    "can start no further thread: raise its limit (ulimit -u, TasksMax of its systemd unit, pids of its container), or "
    "give the machine more memory"
)
#: The sentence about this process.
NO_THREAD: Final = f"this process {LACKS_THREADS}"


def is_lack(error: BaseException) -> bool:
    """Return whether *error* tells that no thread could start."""
    return isinstance(error, RuntimeError) and str(error).startswith("can't start new thread")
