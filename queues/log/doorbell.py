"""A bell from those who transmit to the server: it saves the wait for the next look.

They ring it themselves in the server's own process, and on Linux in others of the same machine; PostgreSQL tells from
wherever they are (see `queues.log.opening.LogWatch.doze`).
"""

import atexit
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from multiprocessing import connection
from typing import Protocol
from weakref import WeakSet

_listeners: dict[str, "WeakSet[Bell]"] = {}
_guard = threading.Lock()
#: So many rings at most are taken together.
_MOST_RINGS = 64


class Readable(Protocol):
    """What the operating system can wait for."""

    def fileno(self) -> int:
        """Return its descriptor."""
        ...


class Bell:
    """Rung when something was transmitted on *branch*; the transaction commits a little later, or not at all.

    Rung by any number of threads; one waits for it.
    """

    def __init__(self, branch: str) -> None:
        self._branch = branch
        self._ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        self._outside = _outside(branch)
        self._is_rung = False
        with _guard:
            _listeners.setdefault(branch, WeakSet()).add(self)

    def ring(self) -> None:
        """End the wait, or the next one; harmless after `close`."""
        if not self._is_rung:
            self._is_rung = True
            with suppress(OSError):
                self._theirs.send(b"\0")

    def wait(self, seconds: float, *others: Readable) -> bool:
        """Wait until it is rung or one of *others* can be read, at most *seconds*; tell whether that came about."""
        sockets = [self._ours, *self._outside, *others]
        ready: Sequence[object] = connection.wait(sockets, seconds)  # type: ignore[arg-type]
        if self._ours in ready:
            self._ours.recv(_MOST_RINGS)
            # Last: who rang in between is heard now, and whoever rings from here on sends again. The other way round
            # the byte of a ring in between could be taken away, and the bell would stay silent for ever.
            self._is_rung = False
        for outside in self._outside:
            with suppress(BlockingIOError):
                for _ in range(_MOST_RINGS):
                    outside.recv(1)
        return bool(ready)

    def close(self) -> None:
        """Hear nothing any more."""
        self._is_rung = True
        with _guard:
            _listeners[self._branch].discard(self)
        for each in (self._ours, self._theirs, *self._outside):
            each.close()


def ring(branch: str) -> None:
    """Wake the server that reads this branch, if it is in this process."""
    if branch in _listeners:
        with _guard:
            bells = tuple(_listeners[branch])
        for bell in bells:
            bell.ring()


def ring_outside(branch: str) -> None:
    """Wake the server that reads this branch, if it is another process of this machine that can be told (3 µs)."""
    sender = _sender()
    if sender is not None and not _listeners.get(branch):
        # Nobody is there, or too much was said already: the server looks by itself too.
        with suppress(OSError):
            sender.sendto(b"", _address(branch))


def _address(branch: str) -> str:
    # An abstract name: no file, and nothing that a dead process leaves behind.
    return f"\0lrq bell {branch}"


def _socket() -> socket.socket | None:
    if sys.platform != "linux":
        return None
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


@cache
def _sender() -> socket.socket | None:
    """Return the socket of all senders of this process; a child that is forked may use it too."""
    made = _socket()
    if made is not None:
        atexit.register(made.close)
    return made


def _outside(branch: str) -> list[socket.socket]:
    made = _socket()
    if made is None:
        return []
    try:
        made.bind(_address(branch))
    except OSError:  # another process has it, an earlier server that does not end: without a bell one looks
        made.close()
        return []
    return [made]
