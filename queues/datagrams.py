"""Datagrams between processes of this machine; Linux only. Each datagram is a hint that may be lost."""

import atexit
import socket
import sys
from contextlib import suppress
from functools import cache


def send(name: str, content: bytes = b"") -> None:
    """Send *content* to the receiver with *name*, if there is one (3 µs)."""
    # An error means: no receiver, a full buffer, no free file descriptor, or a sandbox without such sockets. The caller
    # has written its entries already, so an error here must not fail the call.
    with suppress(OSError):
        sender = _sender()
        if sender is not None:
            sender.sendto(content, _address(name))


def receiver(name: str) -> socket.socket | None:
    """Return a socket for the datagrams to *name*; None if another process has the name, or no socket can be had."""
    try:
        made = _socket()
    except OSError:
        return None
    if made is None:
        return None
    try:
        made.bind(_address(name))
    except OSError:
        made.close()
        return None
    return made


def _address(name: str) -> str:
    # An abstract socket name has no file, so a dead process leaves nothing behind.
    return f"\0lrq {name}"


def _socket() -> socket.socket | None:
    if sys.platform != "linux":
        return None
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


@cache
def _sender() -> socket.socket | None:
    """Return the socket of all senders of this process; a forked child may use it too."""
    made = _socket()
    if made is not None:
        atexit.register(made.close)
    return made
