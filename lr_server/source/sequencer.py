"""The sequencer takes ticks: it is the one reader of all committed entries.

See docs/design.md, "The tick".
"""

import math
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Engine

from discovery.threads import OnEnded, watched
from lr_server.feed.feed import LiveFeed
from lr_server.present_trouble import PresentTrouble
from lr_server.source.pacing import RECENT, Taken, longer, may_notify, pause_after
from queues.clock import Clock
from queues.database.leases import Lease
from queues.errors import OwnershipLostError
from queues.logs import logger
from queues.names import SiteId
from queues.positions import Tick
from queues.send_log.opening import LogWatch, watch_log
from queues.send_log.port import Log, TickRows
from queues.send_log.wakeup import Wakeup

#: After a wakeup or a tick the sequencer looks often for this time, in seconds.
_HOT = 0.05
#: The longest wait between two of these looks, in seconds.
_HOT_WAIT = 0.008
_RETRY = 0.5
#: The most rows of a tick whose transactions are counted; a larger tick counts as one transaction a row.
_FEW_ROWS = 256
#: The longest wait between two looks while applications notify the server, in seconds.
_LONGEST_REST = 1.0

log = logger("lrq.sequencer")


class Sequencer:
    """A thread that closes committed entries in ticks and publishes the ticks to the feed.

    When another server takes the lease, the thread calls *on_lost* and ends. After an error that ends the thread,
    *on_ended* is called. *on_tick* gets each tick after its publication. *on_begin* is called before the first tick,
    and before the next one after each error. A database that has crashed may have lost commits without a tick.
    """

    def __init__(
        self,
        engine: Engine,
        source: Log,
        feed: LiveFeed,
        lease: Lease,
        *,
        wakeup: Wakeup,
        clock: Clock,
        idle_seconds: float,
        interval_seconds: float,
        on_tick: Callable[[TickRows], None],
        on_begin: Callable[[], None],
        on_lost: Callable[[OwnershipLostError], None],
        on_ended: OnEnded,
    ) -> None:
        self._engine = engine
        self._log = source
        self._feed = feed
        self._lease = lease
        self._wakeup = wakeup
        self._clock = clock
        self._idle = idle_seconds
        self._interval = interval_seconds
        self._on_tick = on_tick
        self._on_begin = on_begin
        self._on_lost = on_lost
        self._stopping = threading.Event()
        self._thread = watched("lrq-sequencer", self._run, on_ended)
        self._trouble = PresentTrouble(log, "no tick can be taken", "ticks are taken again")
        #: The number of looks for committed entries.
        self.looks = 0
        #: The last turn of the thread, in `monotonic` seconds; infinite while the thread waits for sessions.
        self.turned = math.inf

    @property
    def trouble(self) -> str:
        """The reason why no tick can be taken now; empty while all is well."""
        return self._trouble.reason

    def start(self) -> None:
        """Start the thread, which begins after the newest tick."""
        self._thread.start()

    def look(self) -> None:
        """Make the thread look for committed entries at once."""
        self._wakeup.notify()

    def stop(self) -> None:
        """Finish the current tick, and wait until the thread has ended; the feed waits for no session meanwhile."""
        self._stopping.set()
        # After an error the thread may have begun the feed anew since the end of the other roles.
        self._feed.close()
        self._wakeup.notify()
        self._thread.join()
        self._wakeup.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.turned = self._clock.monotonic()
            try:
                self._follow()
            except OwnershipLostError as lost:
                self._on_lost(lost)
                return
            except Exception as error:  # noqa: BLE001 - the top of the loop: the status shows the error, and the thread tries again
                self._trouble.note(error)
            self._clock.wait(self._stopping, _RETRY)

    def _follow(self) -> None:
        self._on_begin()
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
        wait = 0.0
        recent: deque[Taken] = deque(maxlen=RECENT)
        is_busy = False
        while not self._stopping.is_set():
            began = self.turned = self._clock.monotonic()
            # After a tick more entries are likely, and `changed` would cost a message each time.
            found = self._drain(last) if is_busy or commits.changed() else _NOTHING
            is_busy = found.last is not None
            self._trouble.end()
            self.looks += 1
            now = self._clock.monotonic()
            if is_busy:
                hot_until, wait = now + _HOT, 0.0
                last = found.last
                recent.append(Taken(now, now - began, found.rows, len(found.sites), found.transactions))
                is_light = may_notify(recent)
                if not is_light:
                    commits.end_notify()
                if not commits.is_notified:
                    if not (is_light and commits.wait_for_notify()):
                        # Under load a pause lets each tick hold many transactions.
                        self._clock.wait(self._stopping, pause_after(recent, self._interval))
                    continue
                # Each transaction notifies the server: no look is needed before the next notification.
                is_busy, hot_until = False, now
            if now < hot_until:
                wait = longer(wait, _HOT_WAIT)
            elif commits.is_notified:
                wait = _LONGEST_REST
            elif commits.wait_for_notify():
                continue
            else:
                wait = longer(wait, self._idle)
            if self._wakeup.wait(wait, *commits.notifiers):
                # Notifications continue until the next tick ends them: commits until then notify too, at little cost.
                hot_until, wait = self._clock.monotonic() + _HOT, 0.0

    def _drain(self, last: Tick | None) -> "_Drained":
        """Take and publish ticks until one is not full."""
        found = _NOTHING
        while not self._stopping.is_set():
            group = self._log.take_tick(self._lease, found.last or last, self._feed.prepare)
            if group is None:
                break
            # The flow control of the feed may wait for slow sessions.
            self.turned = math.inf
            self._feed.publish(group)
            self._on_tick(group)
            self.turned = self._clock.monotonic()
            found = found.and_then(group)
            if not group.more:
                break
        return found


class _Drained(NamedTuple):
    """Ticks taken in a row: the newest tick, the number of rows, their destinations, and their transactions."""

    last: Tick | None
    rows: int
    sites: frozenset[SiteId]
    transactions: int

    def and_then(self, group: TickRows) -> "_Drained":
        sites, transactions = self.sites.union(*group.sets.values()), self.transactions + _transactions(group)
        return _Drained(group.tick, self.rows + group.tick.rows, sites, transactions)


def _transactions(group: TickRows) -> int:
    """Return the number of transactions in a small tick, and the number of rows in a large one."""
    rows = group.rows or ()
    return len({row.transaction for row in rows}) if len(rows) <= _FEW_ROWS else len(rows)


_NOTHING = _Drained(None, 0, frozenset(), 0)
