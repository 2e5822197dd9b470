"""Takes ticks: the one reader of everything that was committed, and the heart of a source (DESIGN 2)."""

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Engine

from lr_server.feed import LiveFeed
from lr_server.pacing import RECENT, SOON, Taken, pause_after
from queues.clock import Clock
from queues.errors import LrqError, OwnershipLostError
from queues.leases import Lease
from queues.log.doorbell import Bell
from queues.log.opening import LogWatch, watch_log
from queues.log.port import Group, Log
from queues.logs import logger
from queues.names import SiteId
from queues.positions import Tick

#: While it rang or something was found within this time, the next look comes soon, in seconds.
_HOT = 0.05
_RETRY = 0.5
#: How long it looks at nothing at most while whoever transmits is to tell, in seconds.
_DOZE = 1.0

log = logger("lrq.sequencer")


class Sequencer:
    """A thread that closes what was committed in ticks and publishes them to the feed.

    Ends by itself, through *on_lost*, when the lease is another's.
    """

    def __init__(
        self,
        engine: Engine,
        source: Log,
        feed: LiveFeed,
        lease: Lease,
        *,
        bell: Bell,
        clock: Clock,
        idle_seconds: float,
        interval_seconds: float,
        on_lost: Callable[[OwnershipLostError], None],
    ) -> None:
        self._engine = engine
        self._log = source
        self._feed = feed
        self._lease = lease
        self._bell = bell
        self._clock = clock
        self._idle = idle_seconds
        self._interval = interval_seconds
        self._on_lost = on_lost
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lrq-sequencer", daemon=True)
        #: Why no tick can be taken just now; empty while all is well.
        self.trouble = ""
        #: How often it has looked for something to close.
        self.looks = 0

    def start(self) -> None:
        """Begin after the newest tick."""
        self._thread.start()

    def look(self) -> None:
        """Look again soon."""
        self._bell.ring()

    def stop(self) -> None:
        """Finish the tick in hand and end."""
        self._stopping.set()
        self._bell.ring()
        self._thread.join()
        self._bell.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except OwnershipLostError as lost:
                self._on_lost(lost)
                return
            except LrqError as error:
                self._tell(str(error))
            except Exception as error:  # noqa: BLE001 - the loop's top: recorded, shown in the status, tried again
                self._tell(f"{type(error).__name__}: {error}")
            self._clock.wait(self._stopping, _RETRY)

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("no tick can be taken", reason=trouble)
        self.trouble = trouble

    def _follow(self) -> None:
        last = self._log.bounds().newest
        self._feed.begin(last)
        commits = watch_log(self._engine)
        try:
            self._poll(last, commits)
        finally:
            commits.close()
            self._log.close()

    def _poll(self, last: Tick | None, commits: LogWatch) -> None:
        hot_until = self._clock.monotonic() + _HOT
        wait = SOON
        recent: deque[Taken] = deque(maxlen=RECENT)
        is_busy = False
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            # Where something was found just now there will be more: to ask first would cost a message each time.
            found = self._drain(last) if is_busy or commits.changed() else _NOTHING
            is_busy = found.last is not None
            self.trouble = ""
            self.looks += 1
            now = self._clock.monotonic()
            if is_busy:
                commits.wake()
                # Under load ticks come at intervals, so that each holds many transactions; after a rest at once.
                hot_until = now + _HOT
                last = found.last
                recent.append(Taken(now, now - began, found.rows, len(found.sites)))
                self._clock.wait(self._stopping, pause_after(recent, self._interval))
                continue
            if now < hot_until:
                wait = SOON
            elif commits.dozes:
                wait = _DOZE
            elif commits.doze():
                continue
            else:
                wait = min(self._idle, wait * 2)
            if self._bell.wait(wait, *commits.tellers):
                # Found first, and then woken up: whoever commits in between tells too, and that costs nobody much.
                hot_until = self._clock.monotonic() + _HOT
                wait = SOON

    def _drain(self, last: Tick | None) -> "_Drained":
        """Take ticks until one is not full."""
        found = _NOTHING
        while not self._stopping.is_set():
            group = self._log.take_tick(self._lease, found.last or last)
            if group is None:
                break
            self._feed.publish(group)
            found = found.and_then(group)
            if not group.more:
                break
        return found


class _Drained(NamedTuple):
    """Ticks that were taken in a row: the newest of them, how many rows they hold, and for whom."""

    last: Tick | None
    rows: int
    sites: frozenset[SiteId]

    def and_then(self, group: Group) -> "_Drained":
        return _Drained(group.tick, self.rows + group.tick.rows, self.sites.union(*group.sets.values()))


_NOTHING = _Drained(None, 0, frozenset())
