"""The work that one server does for the whole site, while it holds the lease `server`: ticks, trim, garbage."""

from collections.abc import Callable, Mapping

from sqlalchemy import Engine

from discovery.scheduler import Jobs
from discovery.threads import OnEnded
from discovery.topology import Topology
from lr_server.feed.feed import LiveFeed
from lr_server.settings import Settings
from lr_server.source.clock_jumps import ClockJumps
from lr_server.source.job_troubles import JobTroubles
from lr_server.source.log_trim import LogTrim
from lr_server.source.sequencer import Sequencer
from lr_server.source.upkeep import Upkeep
from queues.clock import Clock
from queues.database.leases import Lease
from queues.errors import OwnershipLostError
from queues.send_log.port import Log, TickRows
from queues.send_log.wakeup import Wakeup


class SiteWork:
    """The sequencer of a site and its periodic trim, from `start` to `stop`."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        topology: Topology,
        lease: Lease,
        source: Log,
        feed: LiveFeed,
        *,
        wakeup: Wakeup,
        clock: Clock,
        jumps: ClockJumps,
        on_tick: Callable[[TickRows], None],
        on_begin: Callable[[], None],
        on_lost: Callable[[OwnershipLostError], None],
        on_ended: OnEnded,
    ) -> None:
        """Take the ticks of *source* under *lease*; for *on_tick* and *on_begin* see `Sequencer`."""
        self.sequencer = Sequencer(
            engine, source, feed, lease,
            wakeup=wakeup, clock=clock, idle_seconds=settings.idle_poll_seconds,
            interval_seconds=settings.tick_interval_seconds, on_tick=on_tick, on_begin=on_begin,
            on_lost=on_lost, on_ended=on_ended,
        )  # fmt: skip
        self._trim = LogTrim(engine, settings, topology, lease, source, clock=clock, jumps=jumps)
        self._upkeep = Upkeep(engine, settings.parked_retention_seconds, clock=clock, jumps=jumps)
        self._jobs = Jobs(on_ended=on_ended)
        self._troubles = JobTroubles()

    @property
    def troubles(self) -> Mapping[str, str]:
        """The troubles of the sequencer and of the trim, by their names."""
        found = self._troubles.present
        return found | {"sequencer": self.sequencer.trouble} if self.sequencer.trouble else found

    def start(self) -> None:
        """Start the sequencer and the periodic trim."""
        self.sequencer.start()
        self._jobs.add_periodic("trim", self._trim.pause, self.trim, self._troubles.note)
        self._jobs.start()

    def stop(self) -> None:
        """End all threads and wait for them; the feed must be closed."""
        self._jobs.stop()
        self.sequencer.stop()

    def trim(self) -> None:
        """Rotate and empty the log's segments; remove ended snapshots, abandoned staged rows and old parked entries."""
        self._trim.run()
        self._upkeep.run()
        self._troubles.end("trim")
