"""Follow the ticks of another server of the site, and publish them to the live feed of this process.

A tick is a function of two rows of the database. So a follower reads the same rows as the sequencer, and shares
nothing else with it. See docs/design.md, "Several servers".
"""

import math
import threading
from collections.abc import Callable

from sqlalchemy import Engine

from discovery.threads import OnEnded, watched
from lr_server.feed.feed import LiveFeed
from lr_server.present_trouble import PresentTrouble
from lr_server.source.pacing import SOON
from queues.clock import Clock
from queues.errors import TrimmedError
from queues.logs import logger
from queues.positions import Tick
from queues.send_log.opening import CommitWatch, watch_commits
from queues.send_log.port import Log, TickLimits
from queues.send_log.wakeup import Wakeup

#: After a tick the follower looks often for this time, in seconds.
_HOT = 0.05
_RETRY = 0.5

log = logger("lrq.follower")


class TickFollower:
    """A thread that reads the ticks of the site's sequencer and publishes them to the feed.

    After an error that ends the thread, *on_ended* is called.
    """

    def __init__(
        self,
        engine: Engine,
        source: Log,
        feed: LiveFeed,
        *,
        limits: TickLimits,
        feed_bytes: int,
        wakeup: Wakeup,
        clock: Clock,
        idle_seconds: float,
        on_ended: OnEnded,
        watch: Callable[[Engine], CommitWatch] = watch_commits,
    ) -> None:
        """Read up to *limits* at a time; if more than *feed_bytes* wait, begin anew after the newest tick."""
        self._engine = engine
        self._log = source
        self._feed = feed
        self._limits = limits
        self._feed_bytes = feed_bytes
        self._wakeup = wakeup
        self._clock = clock
        self._idle = idle_seconds
        self._watch = watch
        self._stopping = threading.Event()
        self._thread = watched("lrq-follower", self._run, on_ended)
        self._trouble = PresentTrouble(log, "no tick can be followed", "ticks are followed again")
        #: The last turn of the thread, in `monotonic` seconds; infinite while the thread waits for sessions.
        self.turned = math.inf

    @property
    def trouble(self) -> str:
        """The reason why no tick can be read now; empty while all is well."""
        return self._trouble.reason

    def start(self) -> None:
        """Start the thread, which begins after the newest tick."""
        self._thread.start()

    def stop(self) -> None:
        """Publish no further tick, and wait until the thread has ended; the feed waits for no session meanwhile."""
        self._stopping.set()
        self._feed.close()
        self._wakeup.notify()
        self._thread.join()
        self._wakeup.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.turned = self._clock.monotonic()
            try:
                self._follow()
            except Exception as error:  # noqa: BLE001 - the top of the loop: the status shows the error, and the thread tries again
                self._trouble.note(error)
            self._clock.wait(self._stopping, _RETRY)

    def _follow(self) -> None:
        commits = self._watch(self._engine)
        try:
            self._poll(commits)
        finally:
            commits.close()

    def _poll(self, commits: CommitWatch) -> None:
        last = self._begin()
        hot_until = self._clock.monotonic() + _HOT
        wait = SOON
        while not self._stopping.is_set():
            self.turned = self._clock.monotonic()
            newest = self._catch_up(last) if commits.changed() else last
            self._trouble.end()
            now = self._clock.monotonic()
            if newest != last:
                last = newest
                hot_until = now + _HOT
            wait = SOON if now < hot_until else min(self._idle, wait * 2)
            if self._wakeup.wait(wait):
                hot_until = self._clock.monotonic() + _HOT

    def _begin(self) -> Tick | None:
        newest = self._log.bounds().newest
        self._feed.begin(newest)
        return newest

    def _catch_up(self, last: Tick | None) -> Tick | None:
        """Publish the ticks after *last*; return the newest one."""
        is_first = True
        while not self._stopping.is_set():
            try:
                ticks = self._log.ticks_after(last.end_seq if last else self._log.bounds().trimmed_seq, self._limits)
                if not ticks:
                    return last
                if not _continues(last, ticks[0]) or not (is_first or self._is_near(ticks[-1])):
                    return self._begin()
                is_first = False
                for group in self._log.followed(ticks):
                    # Without this check the feed could wait for sessions after `stop`.
                    if self._stopping.is_set():
                        return last
                    self.turned = math.inf
                    self._feed.publish(group)
                    self.turned = self._clock.monotonic()
                    last = group.tick
            except TrimmedError:
                return self._begin()
        return last

    def _is_near(self, tick: Tick) -> bool:
        """Return whether the feed has room for the ticks after *tick*; otherwise sessions read the database anyway."""
        newest = self._log.bounds().newest
        return newest is None or newest.bytes_total - tick.bytes_total <= self._feed_bytes


def _continues(last: Tick | None, tick: Tick) -> bool:
    """Return whether no tick stands between *last* and *tick*; False after a source has lost *last*."""
    if last is None:
        return tick.number == 1
    return tick.number == last.number + 1 and tick.start_seq == last.end_seq
