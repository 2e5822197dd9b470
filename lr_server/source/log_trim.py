"""The trim of a site's log, and the warnings about lost entries."""

from collections.abc import Iterable, Mapping

from sqlalchemy import Engine

from discovery.scheduler import Jobs
from discovery.threads import OnEnded
from discovery.topology import Topology
from lr_server.settings import Settings
from lr_server.source.clock_jumps import ClockJumps
from lr_server.source.job_troubles import JobTroubles
from lr_server.source.reminders import Reminders
from queues.browse.unknown import unknown_destinations
from queues.clock import Clock, iso
from queues.database.leases import Lease
from queues.database.transactions import reading
from queues.logs import logger
from queues.send_log.port import Log, Retention, SessionKey
from queues.send_log.rotation import trim_pause
from queues.send_log.trim_blockers import TrimBlocker, long_ones

log = logger("lrq.source")


class LogTrim:
    """Rotates and empties the segments of a site's log."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        topology: Topology,
        lease: Lease,
        source: Log,
        *,
        clock: Clock,
        jumps: ClockJumps,
    ) -> None:
        """Trim *source* under *lease*. An entry's age leaves out the *jumps* of the clock."""
        self._engine = engine
        self._settings = settings
        self._topology = topology
        self._lease = lease
        self._log = source
        self._clock = clock
        self._jumps = jumps
        self._unknown: Reminders[SessionKey] = Reminders()
        self._blockers: Reminders[tuple[str, str]] = Reminders()

    @property
    def pause(self) -> float:
        """The seconds between two runs."""
        return trim_pause(self._settings.trim_seconds, self._settings.retention(None))

    def run(self) -> None:
        """Rotate and trim once; raises the errors of the log."""
        settings = self._settings
        # Before the peers are known, no destination counts as unknown.
        known = frozenset(self._topology.peers()) if self._topology.version else None
        retention = self._at_least(settings.retention(known))
        self._log.rotate(self._lease, settings.segment_bytes, settings.segment_seconds, retention)
        trimmed = self._log.trim(self._lease, retention)
        for owed in trimmed.laggards:
            log.warning("entries were trimmed that a site had not acknowledged", **owed._asdict())
        if trimmed.found_unordered:
            log.warning(
                "entries have no place in the order of commits: no site gets them", count=trimmed.found_unordered
            )
        if trimmed.dropped_unordered:
            log.warning("entries were trimmed that no site ever got", count=trimmed.dropped_unordered)
        self._tell_unknown(trimmed.dropped_unknown)
        self._tell_blockers(trimmed.blockers)

    def _at_least(self, retention: Retention) -> Retention:
        """Return *retention*, longer by the recent jumps of the clock."""
        monotonic = self._clock.monotonic()
        jump = self._jumps.look(self._clock.now_us(), monotonic)
        if jump > 0:
            log.warning(
                "the clock jumped ahead, or the machine slept: entries count as so much younger", seconds=round(jump)
            )
        elif jump < 0:
            log.warning("the clock jumped back", seconds=round(-jump))
        longest = max(retention.seconds, retention.unknown_seconds, retention.acknowledged_seconds)
        return retention.longer(self._jumps.seconds_ahead(monotonic, longest))

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

    def _tell_blockers(self, blockers: Iterable[TrimBlocker]) -> None:
        found = {(each.name, each.ending): each for each in long_ones(blockers)}
        for key in self._blockers.due(found, self._clock.monotonic()):
            log.warning(
                "tables of the log are in use for long, so trim cannot empty them",
                by=found[key].name, seconds=round(found[key].seconds or 0), cure=found[key].cure,
            )  # fmt: skip


class RingWork:
    """The periodic trim of a ring's leader, from `start` to `stop`; the member takes the ticks."""

    def __init__(self, trim: LogTrim, *, on_ended: OnEnded) -> None:
        self._trim = trim
        self._jobs = Jobs(on_ended=on_ended)
        self._troubles = JobTroubles()

    @property
    def troubles(self) -> Mapping[str, str]:
        """The trouble of the trim, by its name."""
        return self._troubles.present

    def start(self) -> None:
        """Start the periodic trim."""
        self._jobs.add_periodic("trim", self._trim.pause, self.trim, self._troubles.note)
        self._jobs.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._jobs.stop()

    def trim(self) -> None:
        """Trim the log at once."""
        self._trim.run()
        self._troubles.end("trim")
