"""The upkeep of a site's queues beside the trim of its log: ended snapshots, staged rows, parked entries, links."""

from sqlalchemy import Engine

from lr_server.source.clock_jumps import ClockJumps
from queues import send_snapshot
from queues.browse.upkeep import due_upkeep
from queues.clock import Clock
from queues.database.transactions import reading, writing
from queues.receive.parked_rows import forget_parked
from queues.send_log import links
from queues.send_log.staging import forget_abandoned


class Upkeep:
    """Removes rows that serve no purpose any more; for one thread."""

    def __init__(self, engine: Engine, parked_seconds: float, *, clock: Clock, jumps: ClockJumps) -> None:
        """Keep parked entries for *parked_seconds*, which leave out the *jumps* of the clock."""
        self._engine = engine
        self._parked_seconds = parked_seconds
        self._clock = clock
        self._jumps = jumps

    def run(self) -> None:
        """Do the upkeep that is due; a quiet site costs one read. Raises the errors of the queues."""
        ahead = self._jumps.seconds_ahead(self._clock.monotonic(), self._parked_seconds)
        parked_before_us = self._clock.now_us() - int((self._parked_seconds + ahead) * 1_000_000)
        with reading(self._engine) as connection:
            due = due_upkeep(connection, parked_before_us=parked_before_us)
        if due.snapshots:
            self._collect_snapshots()
        if due.staged:
            forget_abandoned(self._engine)
        if due.links or due.parked:
            with writing(self._engine) as connection:
                links.mend_number(connection)
                forget_parked(connection, parked_before_us)

    def _collect_snapshots(self) -> None:
        while True:
            with writing(self._engine) as connection:
                if not send_snapshot.collect_garbage(connection):
                    break
