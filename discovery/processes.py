"""Names of owners from which a process on the same machine can see that an owner has ended."""

import os
import secrets
import socket
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_GONE = frozenset("ZX")  # a zombie holds no resources any more


def owner_name() -> str:
    """Return a new name for an owner in this process, unique on all machines.

    The form is `<host>:<pid>:<start>:<machine>:<random>`.
    """
    pid = os.getpid()
    return ":".join((socket.gethostname(), str(pid), _start(pid) or "", _machine(), secrets.token_hex(4)))


def surely_gone(owner: str) -> bool:
    """Return whether the process named by an `owner_name` has certainly ended.

    False if that is unknown: on another machine, in another container, and for any other string. So it is for another
    user's process that `/proc` hides.
    """
    _, pid, start, machine, _ = (*owner.rsplit(":", 4), "", "", "", "", "")[:5]
    if not machine or machine != _machine() or not pid.isdecimal():
        return False
    found = _start(int(pid))
    return not _exists(int(pid)) if found is None else found != start


def _start(pid: int) -> str | None:
    """Return the start of the process in clock ticks since boot.

    The text is empty if the process has ended. None: the process is not shown.
    """
    try:
        # The process name, in parentheses, may contain any text. After it, the state is field 1 and the start field 20.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[0] in _GONE else fields[19]


def _exists(pid: int) -> bool:
    """Return whether there is a process with this id; with `hidepid`, `/proc` shows only those of the own user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        # The process belongs to another user.
        return True
    return True


@cache
def _machine() -> str:
    """Return one text for all processes that see each other's ids; empty on a system without /proc."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink(_PROC / "self/ns/pid")
    except OSError:
        return ""
    return f"{boot}.{''.join(filter(str.isdecimal, namespace))}"
