"""Standard streams that every command can write to, however its process was started."""

import io
import os
import sys
from typing import Final

#: The number of stderr, the last standard stream; libraries in C write there.
_LAST_NUMBER: Final = 2


def make_usable() -> None:
    """Lead a closed stream to nothing, and show a character as an escape where the encoding of stdout lacks it."""
    # Otherwise the next file, such as a connection, would get the number of the closed stream.
    while (number := os.open(os.devnull, os.O_RDWR)) <= _LAST_NUMBER:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or _nothing()
    sys.stderr = sys.stderr or _nothing()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() not in ("utf-8", "utf8"):
        sys.stdout.reconfigure(errors="backslashreplace")


def leave_stdout() -> None:
    """Write no more to a stdout that is full, or whose reader is gone: Python's last flush would fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def lost_output() -> str:
    """Leave a stdout that takes no more, and return the system's reason; empty while stdout can be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        leave_stdout()
        return str(error.strerror)
    return ""


def _nothing() -> io.TextIOWrapper:
    return open(os.devnull, "w", encoding="utf-8")
