"""Find the queues with new work by their marks: one look serves all idle subscribers of a process."""

import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from sqlalchemy import Engine, select

from queues import datagrams
from queues.clock import SYSTEM_CLOCK
from queues.database import dialects
from queues.database.tables.receive import receive_marks
from queues.database.transactions import reading
from queues.receive.wakeups import WakeupPlace, datagram_names

#: The time between two looks at the marks, in seconds.
LOOK_SECONDS: Final = 0.2
#: The largest number of datagrams to receive at once.
_MOST_DATAGRAMS: Final = 64

#: The part of the marks that changes with new work; a row for each queue.
_REACHED: Final = select(
    receive_marks.c.queue_id,
    receive_marks.c.branch,
    receive_marks.c.boundary_seq,
    receive_marks.c.sync_id,
    receive_marks.c.ended_seq,
)


class MarksWatch:
    """See `queues.receive.wakeup_watch.WakeupWatch`. Looks at the marks, and receives datagrams where there are any.

    For a database whose queues have one row of marks each.
    """

    silence: Final = LOOK_SECONDS

    def __init__(self, engine: Engine, place: WakeupPlace) -> None:
        """Take a free name of *place* for datagrams, if the machine has one."""
        self._engine = engine
        self._socket: socket.socket | None = None
        for name in datagram_names(place):
            self._socket = self._socket or datagrams.receiver(name)
        self._seen: dict[int, tuple[object, ...]] | None = None
        self._looked = 0.0

    @property
    def sources(self) -> Sequence[socket.socket]:
        """See `WakeupWatch`."""
        return [] if self._socket is None else [self._socket]

    def sleep(self, queue_id: int) -> bool:  # noqa: ARG002 - one look serves all queues
        """Return True; `woken` finds all later changes."""
        if self._seen is None:
            self._changed()
        return True

    def end_sleep(self, queue_id: int) -> None:
        """Do nothing."""

    def woken(self) -> set[int]:
        """See `WakeupWatch`; raises `StoreUnavailableError` if the marks cannot be read."""
        found = self._told()
        if self._seen is not None and SYSTEM_CLOCK.monotonic() - self._looked >= LOOK_SECONDS:
            found |= self._changed()
        return found

    def keep(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """See `WakeupWatch`."""
        if self._socket is not None:
            self._socket.close()

    def _told(self) -> set[int]:
        found: set[int] = set()
        if self._socket is not None:
            with suppress(BlockingIOError, ValueError):
                for _ in range(_MOST_DATAGRAMS):
                    found.add(int(self._socket.recv(32)))
        return found

    def _changed(self) -> set[int]:
        with reading(self._engine) as connection:
            rows = dialects.of(connection).bulk_select(connection, _REACHED, {})
        seen = {queue_id: tuple(reached) for queue_id, *reached in rows}
        before, self._seen = self._seen, seen
        self._looked = SYSTEM_CLOCK.monotonic()
        return {queue_id for queue_id, reached in seen.items() if (before or {}).get(queue_id) != reached}
