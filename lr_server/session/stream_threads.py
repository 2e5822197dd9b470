"""Which streams have threads of their own: those that have work.

Such a stream is a little quicker, and its threads cost memory and places. All other streams share some threads. A
stream keeps its kind, so a session connects again for the other one.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar
from weakref import WeakValueDictionary

from lr_server.session.traffic import WorkDone
from queues.clock import Clock
from queues.send_log.port import SessionKey

#: A stream without entries for so many seconds gives its threads back.
IDLE_SECONDS: Final = 60.0
#: A stream with so much work a second gets threads: its frames with entries, and one more for each `_BYTES`.
BUSY: Final = 20.0
_BYTES: Final = 65_536
#: The shortest time over which work counts, in seconds.
_LEAST_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Seen:
    """The work of a session at the time `at`, and the last time at which it had more; monotonic seconds."""

    work: WorkDone
    at: float
    worked_at: float
    is_busy: bool = False

    def look(self, work: WorkDone, now: float) -> None:
        """Note the *work* until *now*."""
        seconds = now - self.at
        if work.frames != self.work.frames:
            self.worked_at = now
        if seconds >= _LEAST_SECONDS:
            done = work.frames - self.work.frames + (work.sent_bytes - self.work.sent_bytes) / _BYTES
            self.is_busy = done / seconds >= BUSY
            self.work, self.at = work, now


class Threaded(Protocol):
    """A sink whose streams have threads of their own."""

    @property
    def is_closed(self) -> bool:
        """Whether the sink was closed, and has no streams any more."""
        ...


Made = TypeVar("Made", bound=Threaded)


class StreamThreads:
    """Divides the threads among the sessions of a server. For several threads."""

    def __init__(self, work: Callable[[SessionKey], WorkDone], clock: Clock, most: int) -> None:
        """Give threads to *most* sessions at once; *work* returns that of a session until now."""
        self._work = work
        self._clock = clock
        self._most = most
        self._guard = threading.Lock()
        self._seen: dict[SessionKey, _Seen] = {}
        self._threaded = WeakValueDictionary[SessionKey, Threaded]()
        self._sharing: set[SessionKey] = set()
        # The sessions that share threads although there may be a place.
        self._idle: set[SessionKey] = set()
        # The busy sessions that connect again for a place, which is kept for them.
        self._promised: set[SessionKey] = set()

    def place(self, owed: SessionKey, make: Callable[[], Made]) -> Made | None:
        """Return the sink that *make* makes if the session gets threads; None if it shares those of others."""
        with self._guard:
            if owed in self._idle or not self._has_place(owed):
                self._sharing.add(owed)
                return None
            self._sharing.discard(owed)
            self._promised.discard(owed)
            made = make()
            self._threaded[owed] = made
            if (seen := self._seen.get(owed)) is not None:
                # A session whose peer was away has not worked for long.
                seen.worked_at = self._clock.monotonic()
            return made

    def is_change_due(self, owed: SessionKey) -> bool:
        """Look at the work of a session; return whether it shall connect again, so that `place` decides anew."""
        work, now = self._work(owed), self._clock.monotonic()
        with self._guard:
            seen = self._seen.setdefault(owed, _Seen(work, now, now))
            seen.look(work, now)
            if (sink := self._threaded.get(owed)) is not None and not sink.is_closed:
                if now - seen.worked_at < IDLE_SECONDS:
                    return False
                self._idle.add(owed)
                return True
            if owed in self._sharing and seen.is_busy and self._has_place(owed):
                self._idle.discard(owed)
                self._promised.add(owed)
                return True
            self._promised.discard(owed)
            return False

    def forget(self, owed: SessionKey) -> None:
        """Forget a session that has ended, or that needs neither kind of threads now."""
        with self._guard:
            self._seen.pop(owed, None)
            self._sharing.discard(owed)
            self._idle.discard(owed)
            self._promised.discard(owed)

    def _has_place(self, owed: SessionKey) -> bool:
        taken = sum(not sink.is_closed for sink in self._threaded.values())
        return taken + len(self._promised - {owed}) < self._most
