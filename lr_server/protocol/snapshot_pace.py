"""The pace of a server's snapshots: they give way while live entries take longer beside them than alone. Pure.

After LEDBAT (RFC 6817): delays tell how much of a shared machine, disk or network is left. Delays beside snapshots are
compared with delays alone, which a short rest of all snapshots measures now and then.
"""

from collections import deque
from collections.abc import Hashable
from statistics import fmean
from typing import Final

#: The delays beside snapshots that a decision needs, and the most that count.
_ENOUGH_BESIDE: Final = 24
_KEPT: Final = 48
#: The delays alone that each session needs, so that its delays beside snapshots count.
_ENOUGH_ALONE: Final = 8
#: On the mean, live entries may take so many times as long as alone, and so many seconds more.
_TOLERATED: Final = 1.25
_TOLERATED_SECONDS: Final = 0.001
#: The change of the limit by a decision, and the least share of the highest rate.
_SLOWER: Final = 0.7
_FASTER: Final = 1.1
_FLOOR: Final = 0.1
#: An entry is alone if no snapshot was sent in so many seconds before it, nor later.
_SETTLED: Final = 0.15
#: The seconds of a rest, and the least seconds from one to the next: with a limit, and without.
_REST: Final = 0.5
_REST_EVERY: Final = 10.0
_REST_WITHOUT_LIMIT_EVERY: Final = 60.0
#: Without a live entry for so many seconds, snapshots have no limit.
_QUIET: Final = 2.0


class SnapshotPace:
    """The bytes a second that all snapshots of one server may send. Times are monotonic seconds.

    Invariants:

    * without live entries there is no limit and no rest;
    * a limit is at least a tenth of the highest rate without a limit;
    * between the beginnings of two rests are at least 10 seconds.
    """

    def __init__(self) -> None:
        """Begin without a limit."""
        # The last delays of each session alone, in seconds.
        self._alone: dict[Hashable, deque[float]] = {}
        # The last delays beside snapshots, in tolerated delays; and the number of delays of sessions without a measure.
        self._beside: deque[float] = deque(maxlen=_KEPT)
        self._unmeasured = 0
        self._sending: set[Hashable] = set()
        self._rate: float | None = None
        self._highest = 0.0
        self._bytes = 0
        self._sent = self._live = self._rested = float("-inf")
        self._counted_from = self._next = 0.0

    @property
    def rate(self) -> float | None:
        """The limit in bytes a second; None for no limit."""
        return self._rate

    def note_entry(self, session: Hashable, since: float, now: float) -> None:
        """Note a live entry of *session* and of the time *since*, whose acknowledgement comes *now*."""
        self._live = now
        alone = self._alone.setdefault(session, deque(maxlen=_KEPT))
        if not self._sending and since - _SETTLED > self._sent:
            alone.append(now - since)
        elif len(alone) < _ENOUGH_ALONE:
            self._unmeasured += 1
        else:
            self._beside.append((now - since) / (_TOLERATED * fmean(alone) + _TOLERATED_SECONDS))

    def note_sent(self, stream: Hashable, size: int, now: float) -> None:
        """Note that a frame of *size* bytes leaves on *stream*."""
        if not self._sending and now - self._sent > _QUIET:
            self._count_from(now)
        self._sending.add(stream)
        self._bytes += size
        self._next = now if self._rate is None else max(self._next, now) + size / self._rate

    def note_all_acknowledged(self, stream: Hashable, now: float) -> None:
        """Note that no frame of a snapshot is in flight on *stream*."""
        if stream in self._sending:
            self._sending.remove(stream)
            self._sent = now

    def pause(self, now: float) -> float:
        """Return the seconds until the next frame of a snapshot may leave; 0 for at once."""
        if now - self._live > _QUIET:
            self._rate = None
            self._next = now
            self._count_from(now)
            return 0.0
        if len(self._beside) >= _ENOUGH_BESIDE and now > self._counted_from:
            self._decide(self._bytes / (now - self._counted_from))
            self._count_from(now)
        if self._is_rest_due(now):
            self._rested = now
            self._unmeasured = 0
            self._next = max(self._next, now + _REST)
            self._count_from(now + _REST)
        return max(self._next - now, 0.0)

    def _decide(self, reached: float) -> None:
        if self._rate is None:
            self._highest = max(self._highest, reached)
        if fmean(self._beside) > 1:
            slower = _SLOWER * min(reached, self._highest if self._rate is None else self._rate)
            self._rate = max(slower, _FLOOR * self._highest, 1.0)
        elif self._rate is not None:
            faster = _FASTER * self._rate
            self._rate = None if faster > self._highest else faster

    def _count_from(self, now: float) -> None:
        self._beside.clear()
        self._bytes = 0
        self._counted_from = now

    def _is_rest_due(self, now: float) -> bool:
        is_urgent = self._rate is not None or self._unmeasured >= _ENOUGH_BESIDE
        return now - self._rested >= (_REST_EVERY if is_urgent else _REST_WITHOUT_LIMIT_EVERY)
