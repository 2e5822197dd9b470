"""Names of owners that tell, on the same machine, whether the process behind them is gone."""

import os
import secrets
import socket
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_GONE = frozenset("ZX")  # a zombie holds nothing any more


def owner_name() -> str:
    """Return a new name for an owner in this process; no other one, here or elsewhere, has the same.

    It reads `<host>:<pid>:<start>:<machine>:<random>`.
    """
    pid = os.getpid()
    return ":".join((socket.gethostname(), str(pid), _start(pid) or "", _machine(), secrets.token_hex(4)))


def surely_gone(owner: str) -> bool:
    """Tell whether the process of an `owner_name` is known to have ended.

    False whenever that cannot be known: on another machine, in another container, for any other string.
    """
    _, pid, start, machine, _ = (*owner.rsplit(":", 4), "", "", "", "", "")[:5]
    if not machine or machine != _machine() or not pid.isdecimal():
        return False
    return _start(int(pid)) != start


def _start(pid: int) -> str | None:
    """Return when the process was started, in clock ticks since boot; None when it is gone or that is not known."""
    try:
        # The name, in parentheses, may contain anything; state is the first field after it, start time the 20th.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in _GONE else fields[19]


@cache
def _machine() -> str:
    """Return what all processes that see each other's ids share; empty where /proc does not tell."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink(_PROC / "self/ns/pid")
    except OSError:
        return ""
    return f"{boot}.{''.join(filter(str.isdecimal, namespace))}"
