"""The pace of a server's snapshots: they give way while live entries take longer beside them than alone. Pure.

After LEDBAT (RFC 6817) and TCP's slow start. Delays tell how much of a shared machine, disk or network is left. Delays
beside snapshots are compared with delays alone, which a short rest of all snapshots measures now and then.
"""

from collections import deque
from collections.abc import Collection, Hashable
from statistics import fmean, median
from typing import Final

#: The delays beside snapshots that a decision needs, and the most that count.
_ENOUGH_BESIDE: Final = 24
_KEPT: Final = 48
#: The delays alone that each session needs, so that its delays beside snapshots count.
_ENOUGH_ALONE: Final = 8
#: Live entries may take on the mean so many times the median alone, and so many seconds more. A larger tolerance shows
#: in the 99th percentile of their delays.
_TOLERATED: Final = 1.15
_TOLERATED_SECONDS: Final = 0.0003
#: On a path whose delays vary by themselves they may take so many times the mean alone. A delay counts there at most as
#: so many medians.
_VARYING: Final = 1.05
_OUTLIER: Final = 3.0
#: The changes of the limit by a decision: before the first delay, after a delay, and without one.
_FIRST_FASTER: Final = 2.0
_SLOWER: Final = 0.7
_FASTER: Final = 1.1
#: A limit rises only while snapshots reach this share of it, because otherwise another thing limits them.
_REACHED: Final = 0.5
#: An entry is alone if no snapshot was sent in so many seconds before it, nor later.
_SETTLED: Final = 0.15
#: The seconds of a rest, and the least seconds from one to the next: after a delay, and without one.
_REST: Final = 0.5
_REST_EVERY: Final = 10.0
_REST_SELDOM_EVERY: Final = 60.0
#: With fewer live entries in so many seconds, snapshots have no limit.
_FEW: Final = 8
_QUIET: Final = 2.0


class SnapshotPace:
    """The bytes a second that all snapshots of one server may send. Times are monotonic seconds.

    Invariants:

    * with less than four live entries a second there is no limit and no rest;
    * a limit is at least the floor, and begins there;
    * between the beginnings of two rests are at least 10 seconds.
    """

    def __init__(self, floor: int) -> None:
        """Begin without a limit. Snapshots may always send *floor* bytes a second; with 0 they never give way."""
        self._floor = float(floor)
        # The last delays of each session alone, in seconds.
        self._alone: dict[Hashable, deque[float]] = {}
        # The last delays beside snapshots, in tolerated delays; and the number of delays of sessions without a measure.
        self._beside: deque[float] = deque(maxlen=_KEPT)
        self._unmeasured = 0
        self._sending: set[Hashable] = set()
        self._rate: float | None = None
        self._has_delayed = False
        self._bytes = 0
        self._sent = self._rested = float("-inf")
        self._live: deque[float] = deque(maxlen=_FEW)
        self._counted_from = self._next = 0.0

    @property
    def rate(self) -> float | None:
        """The limit in bytes a second; None for no limit."""
        return self._rate

    def note_entry(self, session: Hashable, since: float, now: float) -> None:
        """Note a live entry of *session* and of the time *since*, whose acknowledgement comes *now*."""
        self._live.append(now)
        alone = self._alone.setdefault(session, deque(maxlen=_KEPT))
        if not self._sending and since - _SETTLED > self._sent:
            alone.append(now - since)
        elif len(alone) < _ENOUGH_ALONE:
            self._unmeasured += 1
        else:
            self._beside.append((now - since) / _tolerated(alone))

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
        if not self._floor or len(self._live) < _FEW or now - self._live[0] > _QUIET:
            self._rate, self._has_delayed = None, False
            self._next = now
            self._count_from(now)
            return 0.0
        if self._rate is None:
            self._rate = self._floor
            self._count_from(now)
        if len(self._beside) >= _ENOUGH_BESIDE and now > self._counted_from:
            self._rate = self._decided(self._rate, self._bytes / (now - self._counted_from))
            self._count_from(now)
        if self._is_rest_due(now):
            self._rested = now
            self._unmeasured = 0
            self._next = max(self._next, now + _REST)
            self._count_from(now + _REST)
        return max(self._next - now, 0.0)

    def _decided(self, rate: float, reached: float) -> float:
        if fmean(self._beside) > 1:
            self._has_delayed = True
            return max(_SLOWER * min(reached, rate), self._floor)
        if reached < _REACHED * rate:
            return rate
        return rate * (_FASTER if self._has_delayed else _FIRST_FASTER)

    def _count_from(self, now: float) -> None:
        self._beside.clear()
        self._bytes = 0
        self._counted_from = now

    def _is_rest_due(self, now: float) -> bool:
        is_urgent = self._has_delayed or self._unmeasured >= _ENOUGH_BESIDE
        return now - self._rested >= (_REST_EVERY if is_urgent else _REST_SELDOM_EVERY)


def _tolerated(alone: Collection[float]) -> float:
    """Return the tolerated mean of the delays beside snapshots, in seconds."""
    middle = median(alone)
    mean = fmean(min(each, _OUTLIER * middle) for each in alone)
    return max(_TOLERATED * middle, _VARYING * mean) + _TOLERATED_SECONDS
