"""Wake an idle server when a transaction transmits, so that the server need not wait for its next look.

A `Wakeup` works within the server's process, and on Linux from other processes of the machine. For PostgreSQL's
notifications, from any machine, see `queues.send_log.opening.LogWatch.wait_for_notify`.
"""

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import connection
from typing import Protocol
from weakref import WeakSet

from queues import datagrams

_listeners: dict[str, "WeakSet[Wakeup]"] = {}
_guard = threading.Lock()
#: The largest number of notifications to receive at once.
_MOST_NOTIFICATIONS = 64


class Readable(Protocol):
    """An object with a file descriptor that the operating system can wait for."""

    def fileno(self) -> int:
        """Return the file descriptor."""
        ...


class Wakeup:
    """Wakes a server when a transaction transmits on *branch*; this transaction may commit later, or roll back.

    Any number of threads may notify, but only one thread waits.
    """

    def __init__(self, branch: str) -> None:
        self._branch = branch
        self._ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        self._outside = _outside(branch)
        self._is_notified = False
        with _guard:
            _listeners.setdefault(branch, WeakSet()).add(self)

    def notify(self) -> None:
        """End the present wait, or the next one; do nothing after `close`."""
        if not self._is_notified:
            self._is_notified = True
            with suppress(OSError):
                self._theirs.send(b"\0")

    def wait(self, seconds: float, *others: Readable) -> bool:
        """Wait up to *seconds* for a notification, or until one of *others* is readable; return whether one came."""
        sockets = [self._ours, *self._outside, *others]
        ready: Sequence[object] = connection.wait(sockets, seconds)  # type: ignore[arg-type]
        if self._ours in ready:
            self._ours.recv(_MOST_NOTIFICATIONS)
            # Reset the flag only after receiving. In the reverse order, a notification in between could lose its byte.
            # The flag would stay set, and `notify` would never send again.
            self._is_notified = False
        for outside in self._outside:
            with suppress(BlockingIOError):
                for _ in range(_MOST_NOTIFICATIONS):
                    outside.recv(1)
        return bool(ready)

    def close(self) -> None:
        """Close the sockets; later notifications are lost."""
        self._is_notified = True
        with _guard:
            _listeners[self._branch].discard(self)
        for each in (self._ours, self._theirs, *self._outside):
            each.close()


def wake_server(branch: str) -> None:
    """Wake the server of this branch, if it runs in this process."""
    if branch in _listeners:
        with _guard:
            wakeups = tuple(_listeners[branch])
        for wakeup in wakeups:
            wakeup.notify()


def wake_other_process(branch: str) -> None:
    """Wake the server of this branch, if it is another process of this machine; Linux only."""
    if not _listeners.get(branch):
        # A missed wakeup only adds the wait for the server's next look.
        datagrams.send(_name(branch))


def _name(branch: str) -> str:
    return f"bell {branch}"


def _outside(branch: str) -> list[socket.socket]:
    # While an earlier server still has the name, this server gets no wakeups and polls.
    made = datagrams.receiver(_name(branch))
    return [] if made is None else [made]
