"""Wake the threads that wait for a request or for a complete snapshot, by datagrams; Linux only.

A hint reaches the processes of this machine, and may be lost or come before the commit. Without it a thread only waits
until its next look.
"""

import socket
import threading
from contextlib import suppress
from multiprocessing import connection as sockets
from types import TracebackType
from typing import Final, NamedTuple, Self

from sqlalchemy import Connection, select

from queues import datagrams
from queues.clock import SYSTEM_CLOCK, Clock
from queues.database.tables.site import site
from queues.names import ClientName

#: The processes of one machine that wait for the same hint.
PROCESSES: Final = 4
#: The seconds between two tries to get a name that other processes had.
_AGAIN: Final = 5.0
_MOST: Final = 64


class HintNames(NamedTuple):
    """The names under which the processes of one site send and receive hints."""

    site: str

    def transmitter(self, client: ClientName) -> str:
        """Return the name of the transmitters of *client*."""
        return f"snapshot requests {self.site} {client}"

    def servers(self) -> str:
        """Return the name of the servers."""
        return f"snapshots {self.site}"


def names_at(connection: Connection) -> HintNames:
    """Return the names for the connection's database, which must be initialized."""
    site_id, created_us = connection.execute(select(site.c.site_id, site.c.created_us)).one()
    return HintNames(f"{site_id} {created_us}")


def send(name: str) -> None:
    """Wake the receivers of *name*; call after the commit, or before it if that is unknown."""
    for number in range(PROCESSES):
        datagrams.send(f"{name} {number}")


class HintReceiver:
    """Sets *event* at each hint, from a thread, until the end of the block."""

    def __init__(self, name: str, event: threading.Event, clock: Clock = SYSTEM_CLOCK) -> None:
        self._name = name
        self._event = event
        self._clock = clock
        self._ours, self._theirs = socket.socketpair()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._receive, name="lrq-snapshot-hints", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._theirs.close()
        self._thread.join()

    def _receive(self) -> None:
        found: socket.socket | None = None
        try:
            while not self._ended.is_set():
                found = found or _free(self._name)
                if found is None:
                    self._clock.wait(self._ended, _AGAIN)
                    continue
                if found in sockets.wait([found, self._ours]):
                    with suppress(BlockingIOError):
                        for _ in range(_MOST):
                            found.recv(1)
                    self._event.set()
        finally:
            for each in (found, self._ours):
                if each is not None:
                    each.close()


def _free(name: str) -> socket.socket | None:
    made = (datagrams.receiver(f"{name} {number}") for number in range(PROCESSES))
    return next((each for each in made if each is not None), None)
