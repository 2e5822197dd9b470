"""The traffic of the sessions of one server, since the server began: bytes, reconnects, and the delays of entries.

A delay begins at the entry's own time, and ends when the source hears of it. So both times are of one clock.
"""

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from queues.send_log.port import SessionKey

#: The upper bounds of the delays that are told apart, in seconds; a last one is without end.
BOUNDS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 3600.0)
#: The most frames of one session that wait to be applied and are told apart. Later ones count with the last.
_MOST_WAITING: Final = 256


class Delays(NamedTuple):
    """The numbers of entries by their delays, one for each of `BOUNDS` and one above. `seconds` is the sum of all."""

    numbers: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    seconds: float = 0.0

    def plus(self, entries: int, seconds: float) -> "Delays":
        """Return these delays and *entries* more of *seconds* each. Pure."""
        at = bisect_left(BOUNDS, seconds)
        numbers = (*self.numbers[:at], self.numbers[at] + entries, *self.numbers[at + 1 :])
        return Delays(numbers, self.seconds + entries * seconds)


class TrafficFacts(NamedTuple):
    """The traffic of one session; `sent_bytes` went over the network."""

    sent_bytes: int
    reconnects: int
    to_sink: Delays
    to_applied: Delays


class WorkDone(NamedTuple):
    """The work of a session's streams until now: the frames with entries, and all bytes."""

    frames: int
    sent_bytes: int


class _SentEntries(NamedTuple):
    """The entries of one frame: the position after them, their number, and the time of the first one.

    `is_live`: they left soon after their commit, because their session kept up.
    """

    end: int
    entries: int
    since_us: int
    is_live: bool = False


class SessionTraffic:
    """The traffic of one session. Several threads may share this object."""

    def __init__(self) -> None:
        self._sent_bytes = self._frames = 0
        self._negotiations = 0
        self._is_change_planned = False
        self._to_sink = self._to_applied = Delays()
        # No more frames than the window of the session holds.
        self._sent: deque[_SentEntries] = deque()
        self._waiting: deque[_SentEntries] = deque()
        self._guard = threading.Lock()

    @property
    def facts(self) -> TrafficFacts:
        """The traffic until now."""
        with self._guard:
            reconnects = max(self._negotiations - 1, 0)
            return TrafficFacts(self._sent_bytes, reconnects, self._to_sink, self._to_applied)

    @property
    def work_done(self) -> WorkDone:
        """The work until now."""
        with self._guard:
            return WorkDone(self._frames, self._sent_bytes)

    def negotiated(self) -> None:
        """Count one attempt to connect; each but the first and the planned ones is a reconnect."""
        with self._guard:
            self._negotiations += not self._is_change_planned
            self._is_change_planned = False

    def plan_change(self) -> None:
        """Do not count the next attempt to connect: nothing is wrong with the connection."""
        with self._guard:
            self._is_change_planned = True

    def add_bytes(self, number: int) -> None:
        """Count the bytes of one sent frame."""
        with self._guard:
            self._sent_bytes += number

    def begin(self) -> None:
        """Forget entries in flight: they count again if they are sent again."""
        with self._guard:
            self._sent.clear()

    def forget(self) -> None:
        """Forget all entries that are not applied: the history of the sink has changed, or another server led it."""
        with self._guard:
            self._sent.clear()
            self._waiting.clear()

    def sent(self, end: int, entries: int, since_us: int, *, is_live: bool = False) -> None:
        """Note a frame of *entries* that ends at the sequence number *end*; *since_us* is the time of its first."""
        if entries:
            with self._guard:
                self._frames += 1
                self._sent.append(_SentEntries(end, entries, since_us, is_live))

    def acknowledged(self, acked: int, applied: int, now_us: int) -> list[float]:
        """Count the delays of the entries up to the sequence numbers *acked* and *applied*.

        Return the delays of the acknowledged live frames, in seconds.
        """
        live = []
        with self._guard:
            while self._sent and self._sent[0].end <= acked:
                done = self._sent.popleft()
                seconds = _seconds(done, now_us)
                if done.is_live:
                    live.append(seconds)
                self._to_sink = self._to_sink.plus(done.entries, seconds)
                self._wait(done)
            while self._waiting and self._waiting[0].end <= applied:
                done = self._waiting.popleft()
                self._to_applied = self._to_applied.plus(done.entries, _seconds(done, now_us))
        return live

    def _wait(self, done: _SentEntries) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            last = self._waiting.pop()
            done = _SentEntries(done.end, last.entries + done.entries, last.since_us)
        self._waiting.append(done)


def _seconds(done: _SentEntries, now_us: int) -> float:
    return max(now_us - done.since_us, 0) / 1_000_000


class Traffic:
    """The traffic of each session that this server has led; it outlives the sessions, so that no count goes back."""

    def __init__(self) -> None:
        """Begin without sessions."""
        self._sessions: dict[SessionKey, SessionTraffic] = {}
        self._guard = threading.Lock()

    def of(self, owed: SessionKey) -> SessionTraffic:
        """Return the traffic of one session."""
        with self._guard:
            return self._sessions.setdefault(owed, SessionTraffic())

    @property
    def facts(self) -> Mapping[SessionKey, TrafficFacts]:
        """The traffic until now, by the sessions in their order."""
        with self._guard:
            return {owed: self._sessions[owed].facts for owed in sorted(self._sessions)}
