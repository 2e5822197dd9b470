"""The work that one server does for the whole site, while it holds the lease `server`: ticks, trim, garbage."""

from collections.abc import Callable, Mapping

from sqlalchemy import Engine

from discovery.scheduler import Jobs
from discovery.threads import OnEnded
from discovery.topology import Topology
from lr_server.feed.feed import LiveFeed
from lr_server.settings import Settings
from lr_server.source.job_troubles import JobTroubles
from lr_server.source.reminders import Reminders
from lr_server.source.sequencer import Sequencer
from queues import send_snapshot
from queues.browse.unknown import unknown_destinations
from queues.clock import Clock, iso, now_us
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.errors import OwnershipLostError
from queues.logs import logger
from queues.receive.parked import forget_parked
from queues.send_log import links
from queues.send_log.port import Log, SessionKey, TickRows
from queues.send_log.rotation import trim_pause
from queues.send_log.staging import forget_abandoned
from queues.send_log.wakeup import Wakeup

log = logger("lrq.source")


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
        on_tick: Callable[[TickRows], None],
        on_lost: Callable[[OwnershipLostError], None],
        on_ended: OnEnded,
    ) -> None:
        """Take the ticks of *source* under *lease*; *on_tick* gets each of them."""
        self._engine = engine
        self._settings = settings
        self._topology = topology
        self._clock = clock
        self._log = source
        self.lease = lease
        self.sequencer = Sequencer(
            engine, source, feed, lease,
            wakeup=wakeup, clock=clock, idle_seconds=settings.idle_poll_seconds,
            interval_seconds=settings.tick_interval_seconds, on_tick=on_tick, on_lost=on_lost, on_ended=on_ended,
        )  # fmt: skip
        self._unknown = Reminders()
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
        pause = trim_pause(self._settings.trim_seconds, self._settings.retention(None))
        self._jobs.add_periodic("trim", pause, self.trim, self._troubles.note)
        self._jobs.start()

    def stop(self) -> None:
        """End all threads and wait for them; the feed must be closed."""
        self._jobs.stop()
        self.sequencer.stop()

    def trim(self) -> None:
        """Rotate and empty the log's segments; remove ended snapshots, abandoned staged rows and old parked entries."""
        settings = self._settings
        # Before the peers are known, no destination counts as unknown.
        retention = settings.retention(frozenset(self._topology.peers()) if self._topology.version else None)
        self._log.rotate(self.lease, settings.segment_bytes, settings.segment_seconds, retention)
        trimmed = self._log.trim(self.lease, retention)
        for owed in trimmed.laggards:
            log.warning("entries were trimmed that a site had not acknowledged", **owed._asdict())
        if trimmed.found_unordered:
            log.warning(
                "entries have no place in the order of commits: no site gets them", count=trimmed.found_unordered
            )
        if trimmed.dropped_unordered:
            log.warning("entries were trimmed that no site ever got", count=trimmed.dropped_unordered)
        self._tell_unknown(trimmed.dropped_unknown)
        while True:
            with writing(self._engine) as connection:
                if not send_snapshot.collect_garbage(connection):
                    break
        forget_abandoned(self._engine)
        with writing(self._engine) as connection:
            links.mend_number(connection)
            forget_parked(connection, now_us() - int(settings.parked_retention_seconds * 1_000_000))
        self._troubles.end("trim")

    def _tell_unknown(self, dropped: Mapping[SessionKey, int]) -> None:
        for owed, entries in dropped.items():
            log.warning("entries were dropped: their destination is no peer", **owed._asdict(), count=entries)
        with reading(self._engine) as connection:
            found = {each.owed: each for each in unknown_destinations(connection) if each.waiting.entries}
        for owed in self._unknown.due(found, self._clock.monotonic()):
            log.warning(
                "entries wait for a destination that is no peer: add the site to `peers`, or correct the name",
                **owed._asdict(), count=found[owed].waiting.entries, oldest=iso(found[owed].oldest_us),
            )  # fmt: skip
