"""Decide which changes of sessions are logged, so that a lost peer fills no log.

A lost peer gets one line, a reminder now and then, and one line when its sessions are back.
"""

import math
import threading
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, assert_never

from lr_server.protocol.states import Mode, StatusText
from queues.clock import Clock
from queues.logs import EventLogger
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey
from queues.states import SessionState

#: Seconds between two reminders of one lost peer.
REMIND_SECONDS: Final = 600.0
#: The least seconds between two lines about the loss of one peer.
QUIET_SECONDS: Final = 60.0

_LOST: Final = (SessionState.BACKING_OFF, SessionState.FAILED)
_UNDECIDED: Final = (SessionState.IDLE, SessionState.NEGOTIATING)
_CATCHING_UP: Final = StatusText(SessionState.LOG_ENTRY_SYNC, Mode.CATCH_UP.value)


class LogLine(Enum):
    """The line to log for a change of a session."""

    #: The usual line with the new state.
    CHANGE = auto()
    LOST = auto()
    STILL_LOST = auto()
    BACK = auto()
    NOTHING = auto()


@dataclass(slots=True)
class Outage:
    """The sessions of one peer that are lost, and the last line about the loss. Pure: times are arguments."""

    lost: set[ClientName] = field(default_factory=set)
    began: float = 0.0
    is_told: bool = False
    last_line: float = -math.inf
    last_words: StatusText | None = None
    quiet_until: float = -math.inf
    planned: set[ClientName] = field(default_factory=set)

    def plan(self, client: ClientName) -> None:
        """Expect that *client*'s session connects again as planned, which needs no usual lines."""
        self.planned.add(client)

    def note(self, client: ClientName, words: StatusText, now: float) -> LogLine:
        """Take the new state of *client*'s session with the peer, at the time *now* in seconds."""
        if client in self.planned:
            if words.name in _UNDECIDED or words == _CATCHING_UP:
                return LogLine.NOTHING
            self.planned.discard(client)
            if words.name is SessionState.LOG_ENTRY_SYNC:
                return LogLine.NOTHING
        if words.name in _LOST:
            return self._lose(client, words, now)
        if words.name in _UNDECIDED:
            return LogLine.NOTHING if self.is_quiet(client, now) else LogLine.CHANGE
        if client not in self.lost or words.name is SessionState.STOPPED:
            self.lost.discard(client)
            self.is_told = self.is_told and bool(self.lost)
            return LogLine.NOTHING if self.is_quiet(client, now) else LogLine.CHANGE
        self.lost.remove(client)
        if not self.is_told:
            # A peer that comes and goes is told with its next loss, at most once in `QUIET_SECONDS`.
            self.quiet_until = now + QUIET_SECONDS
            return LogLine.NOTHING
        if self.lost:
            return LogLine.CHANGE
        self.is_told = False
        return LogLine.BACK

    def is_quiet(self, client: ClientName, now: float) -> bool:
        """Return whether *client*'s session writes no usual lines."""
        return client in self.lost or client in self.planned or now < self.quiet_until

    def _lose(self, client: ClientName, words: StatusText, now: float) -> LogLine:
        if not self.lost:
            self.began = now
        self.lost.add(client)
        pause = now - self.last_line
        is_other = words != self.last_words
        if pause < (QUIET_SECONDS if is_other or not self.is_told else REMIND_SECONDS):
            return LogLine.NOTHING
        line = LogLine.STILL_LOST if self.is_told else LogLine.LOST
        self.is_told, self.last_line, self.last_words = True, now, words
        return line


class Outages:
    """The outages of all peers of a server. For several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of: dict[SiteId, Outage] = {}
        self._guard = threading.Lock()

    def note(self, owed: SessionKey, words: StatusText) -> tuple[LogLine, float]:
        """Return the line to log for the new state of a session, and the seconds since the peer was lost."""
        now = self._clock.monotonic()
        with self._guard:
            outage = self._of.setdefault(owed.destination, Outage())
            return outage.note(owed.client, words, now), now - outage.began

    def plan(self, owed: SessionKey) -> None:
        """Expect that the session connects again as planned."""
        with self._guard:
            self._of.setdefault(owed.destination, Outage()).plan(owed.client)

    def is_quiet(self, owed: SessionKey) -> bool:
        """Return whether the session writes no usual lines, because its peer is lost."""
        with self._guard:
            outage = self._of.get(owed.destination)
            return outage is not None and outage.is_quiet(owed.client, self._clock.monotonic())


def log_change(log: EventLogger, line: LogLine, seconds: float, words: StatusText) -> None:
    """Write the *line* about a session's new state; its peer was lost *seconds* ago."""
    changed = log.bind(state=words.name, detail=words.detail)
    match line:
        case LogLine.CHANGE:
            changed.info("session")
        case LogLine.LOST:
            changed.warning("the peer is lost")
        case LogLine.STILL_LOST:
            changed.warning("the peer is still lost", seconds=round(seconds))
        case LogLine.BACK:
            changed.info("the peer is back", seconds=round(seconds))
        case LogLine.NOTHING:
            changed.debug("session")
        case _:
            assert_never(line)
