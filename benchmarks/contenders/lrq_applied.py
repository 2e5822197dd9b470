"""lrq with a subscriber at each destination: its listener writes each entry into the application's own table.

The server and the subscriber of a site are two processes, as in production. The listener writes with binary COPY, as
PgQ's best loop does.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy.orm import Session

import queues
from benchmarks.contender import Place
from benchmarks.contenders.lrq_sites import CLIENT, LrqOnPostgreSQL
from benchmarks.contenders.tables import ENTRIES, destination_name
from benchmarks.contenders.workers import Told, Workers
from benchmarks.issue_bars import APPLIED
from benchmarks.stages import SUBSCRIBER, Stages
from lr_client import RoutingQueueListener, RoutingTableEntryMsg, subscribe
from queues.database.postgresql.binary_copy import binary_copy

_APPLY: Final = "COPY entries (id, payload) FROM STDIN (FORMAT BINARY)"
_NEWEST: Final = "SELECT coalesce(max(id), 0) FROM entries"
_STORED: Final = "SELECT count(*), count(DISTINCT id) FROM entries"


class LrqApplied(LrqOnPostgreSQL):
    """lrq on PostgreSQL; an entry has arrived once the listener's transaction is committed."""

    def __init__(self) -> None:
        """Start nothing yet."""
        super().__init__()
        self.name = APPLIED
        self._subscribers = Workers()

    def prepare(self, place: Place, destinations: int) -> None:
        """Start the sites, then the subscribers."""
        super().prepare(place, destinations)
        for number in range(destinations):
            sink = destination_name(number)
            place.cluster.execute(sink, ENTRIES)
            self._subscribers.start(_follow, place.cluster.url(sink), self.profiled)
        self._subscribers.wait_ready()

    def cpu_of_subscribers(self) -> list[dict[str, float]]:
        """Return the CPU seconds of each profiled subscriber by stage."""
        return self._subscribers.ask(60)

    def progress(self, destination: int) -> int:
        """Return the sequence of the newest entry in the application's table."""
        return int(self._ask(destination, _NEWEST)[0])

    def stored(self, destination: int) -> tuple[int, int]:
        """Count the rows of the application's table."""
        rows, different = self._ask(destination, _STORED)
        return int(rows), int(different)

    def _ask(self, destination: int, query: str) -> Sequence[Any]:
        driver: Any = self._eyes[destination].connection.driver_connection
        return tuple(driver.execute(query, prepare=True).fetchone())

    def close(self) -> None:
        """Stop the subscribers, then the servers."""
        self._subscribers.stop()
        super().close()


class Applying(RoutingQueueListener):
    """Writes the entries of a call with one COPY."""

    client_name = CLIENT

    def process_updates_in_log_entry_sync(
        self,
        session: Session,
        source_id: str,  # noqa: ARG002 - of the interface
        entries: Sequence[RoutingTableEntryMsg],
    ) -> bool:
        """Write the entries, numbered by their sequence."""
        driver: Any = session.connection().connection.driver_connection
        columns: list[list[object]] = [
            [entry.sequence for entry in entries],
            [entry.opaque_payload for entry in entries],
        ]
        with driver.cursor() as cursor, cursor.copy(_APPLY) as copy:
            copy.write(binary_copy(["bigint", "bytea"], columns))
        return True

    process_updates_in_snapshot_sync = process_updates_in_log_entry_sync


def _follow(told: Told, url: str, profiled: bool) -> None:
    stages = Stages()
    if profiled:
        stages.watch(SUBSCRIBER)
    engine = queues.create_engine(url)
    with subscribe(engine, Applying()):
        told.ready()
        while told.asked():
            told.tell(stages.report())
    engine.dispose()
