"""Whether this process can start a further thread."""

import threading
from typing import Final

#: The sentence about a process that cannot.
NO_THREAD: Final = (
    "this process can start no further thread: raise its limit (ulimit -u, TasksMax of its systemd unit, pids of its "
    "container), or give the machine more memory"
)


def is_lack(error: BaseException) -> bool:
    """Return whether *error* tells that no thread could start."""
    return isinstance(error, RuntimeError) and str(error).startswith("can't start new thread")


def can_start() -> bool:
    """Return whether a thread can start now; one starts, and ends at once."""
    try:
        threading.Thread(target=_nothing, name="lrq-room", daemon=True).start()
    except RuntimeError as error:
        if not is_lack(error):
            raise
        return False
    return True


def _nothing() -> None:
    pass
