"""The part of one server in the ticks of its site: taking them, following those of another server, or rest."""

import threading
from collections.abc import Callable, Mapping

from sqlalchemy import Engine

from discovery.threads import OnEnded
from discovery.topology import Topology
from lr_server.feed.feed import LiveFeed
from lr_server.settings import Settings
from lr_server.source.clock_jumps import ClockJumps
from lr_server.source.incarnation import adopt, adopted_branch
from lr_server.source.log_access import LogAccess
from lr_server.source.log_trim import LogTrim, RingWork
from lr_server.source.site_work import SiteWork
from lr_server.source.tick_follower import TickFollower
from queues.clock import Clock
from queues.database.leases import Lease
from queues.errors import OwnershipLostError
from queues.send_log.port import Log, TickLimits, TickRows
from queues.send_log.wakeup import Wakeup


class TickRole:
    """Feeds the sessions of one server with ticks. No change of the role ends a session of the same branch.

    `sequence`, `follow` and `rest` are for one thread at a time, and the other methods for any.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        topology: Topology,
        feed: LiveFeed,
        limits: TickLimits,
        access: LogAccess,
        *,
        server: str,
        clock: Clock,
        on_tick: Callable[[TickRows], None],
        on_begin: Callable[[], None],
        on_branch: Callable[[str], None],
        on_lost: Callable[[OwnershipLostError], None],
        on_ended: OnEnded,
    ) -> None:
        """Begin at rest.

        As the sequencer, call *on_begin* and *on_tick* as `Sequencer` does, and *on_lost* after the loss of the lease.
        *on_branch* gets each new branch, and ends the sessions of others.
        """
        self._engine = engine
        self._settings = settings
        self._topology = topology
        self._feed = feed
        self._limits = limits
        self._access = access
        self._server = server
        self._clock = clock
        self._jumps = ClockJumps(clock.now_us(), clock.monotonic())
        self._on_tick = on_tick
        self._on_begin = on_begin
        self._on_branch = on_branch
        self._on_lost = on_lost
        self._on_ended = on_ended
        #: The log that the role reads; a sequencer takes its ticks from the same object.
        self.log: Log = access.open(engine, limits)
        self._branch = ""
        self._site_work: SiteWork | None = None
        self._ring_work: RingWork | None = None
        self._follower: TickFollower | None = None
        # Guards the role and the branch: the supervisor may find a new branch while the role changes.
        self._guard = threading.RLock()

    @property
    def troubles(self) -> Mapping[str, str]:
        """One sentence for each part of the role that fails now, by the part's name."""
        work, follower = self._site_work or self._ring_work, self._follower
        found = {} if work is None else dict(work.troubles)
        return found | {"follower": follower.trouble} if follower is not None and follower.trouble else found

    @property
    def turns(self) -> Mapping[str, float]:
        """The last turn of each loop, in monotonic seconds; infinite while a loop waits for sessions."""
        found, work, follower = {}, self._site_work, self._follower
        if work is not None:
            found["sequencer"] = work.sequencer.turned
        if follower is not None:
            found["follower"] = follower.turned
        return found

    def look(self) -> None:
        """Look for committed entries at once, as the sequencer of the site."""
        if (work := self._site_work) is not None:
            work.sequencer.look()

    def trim(self) -> None:
        """Trim the log at once, as the sequencer of the site or the leader of a ring."""
        work = self._site_work or self._ring_work
        if work is not None:
            work.trim()

    def sequence(self, lease: Lease) -> None:
        """Take the ticks of the site under *lease*; the leader of a ring follows those of its member, and trims.

        If the database was restored or promoted, a new branch begins. Raises the errors of
        `queues.database.transactions`, and `OwnershipLostError`.
        """
        branch = adopt(self._engine, lease)
        with self._guard:
            self._end()
            self._enter(branch)
            # The old log remembers the sets of this server's ticks; other servers may have taken ticks since.
            self.log = self._access.open(self._engine, self._limits)
            if not self._access.generation:
                self._begin_to_take(lease, branch)
            else:
                self._begin_to_follow()
                if self._access.trims:
                    self._begin_to_trim(lease)

    def follow(self) -> None:
        """Follow the ticks of another server."""
        with self._guard:
            self._end()
            self._begin_to_follow()

    def rest(self) -> None:
        """Take and follow no tick any more; the sessions go on with the ticks that they find in the database."""
        with self._guard:
            self._end()

    def find_branch(self) -> str | None:
        """Enter the current branch and return it; None while the sequencer has not adopted the database."""
        branch = adopted_branch(self._engine)
        if branch is not None:
            with self._guard:
                self._enter(branch)
        return branch

    # --- with the guard ---------------------------------------------------------------------------------------

    def _begin_to_take(self, lease: Lease, branch: str) -> None:
        self._site_work = SiteWork(
            self._engine, self._settings, self._topology, lease, self.log, self._feed, wakeup=Wakeup(branch),
            clock=self._clock, jumps=self._jumps, on_tick=self._on_tick, on_begin=self._on_begin,
            on_lost=self._on_lost, on_ended=self._on_ended,
        )  # fmt: skip
        self._site_work.start()

    def _begin_to_trim(self, lease: Lease) -> None:
        trim = LogTrim(
            self._engine, self._settings, self._topology, lease, self.log, clock=self._clock, jumps=self._jumps
        )
        self._ring_work = RingWork(trim, on_ended=self._on_ended)
        self._ring_work.start()

    def _begin_to_follow(self) -> None:
        self._follower = TickFollower(
            self._engine, self.log, self._feed, limits=self._limits, feed_bytes=self._settings.feed_bytes,
            wakeup=Wakeup(self._server), clock=self._clock, idle_seconds=self._settings.idle_poll_seconds,
            on_ended=self._on_ended, watch=self._access.watch,
        )  # fmt: skip
        self._follower.start()

    def _end(self) -> None:
        ring, self._ring_work = self._ring_work, None
        if ring is not None:
            ring.stop()
        work, self._site_work = self._site_work, None
        follower, self._follower = self._follower, None
        if work is not None or follower is not None:
            # No role may wait for a session while it ends.
            self._feed.close()
        if work is not None:
            work.stop()
        if follower is not None:
            follower.stop()

    def _enter(self, branch: str) -> None:
        """Drop the ticks of the feed, and end the sessions of other branches."""
        if branch == self._branch:
            return
        is_following = self._follower is not None
        if is_following:
            self._end()
        # The ticks of the feed may be lost: the sequencer's first look, or the follower's, begins the feed. Sessions of
        # the new branch may begin while others end, and must not find lost ticks.
        self._feed.begin(None)
        self._on_branch(branch)
        self._branch = branch
        if is_following:
            self._begin_to_follow()
