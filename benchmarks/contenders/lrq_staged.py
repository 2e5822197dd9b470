"""lrq on PostgreSQL with a subscriber at the sink; its processes record the moments of `benchmarks.moments`."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from sqlalchemy import Engine, event
from sqlalchemy.orm import Session

import queues
from benchmarks.contender import Place
from benchmarks.contenders.lrq_servers import ServerProcess
from benchmarks.contenders.lrq_sites import CLIENT, LrqOnPostgreSQL
from benchmarks.contenders.tables import destination_name
from benchmarks.contenders.workers import Told, Workers
from benchmarks.moments import APPLIED, CALLED, Moment, Moments
from lr_client import RoutingQueueListener, subscribe

STAGED: Final = "lrq on PostgreSQL, by stage"


class StagedLrq(LrqOnPostgreSQL):
    """The measured servers and one measured subscriber."""

    def __init__(self) -> None:
        """Start nothing yet."""
        super().__init__()
        self.name = STAGED
        self._subscribers = Workers()

    def prepare(self, place: Place, destinations: int) -> None:
        """Start the servers, then the subscriber."""
        super().prepare(place, destinations)
        self._subscribers.start(_subscribe, place.cluster.url(destination_name(0)))
        self._subscribers.wait_ready()

    def _run(self, site: str, engine: Engine, **settings: object) -> ServerProcess:
        url = engine.url.render_as_string(hide_password=False)
        process = ServerProcess({"site_id": site, "database_url": url, **settings}, timed=True)
        self._processes.append(process)
        return process

    def moments(self) -> list[Moment]:
        """Return the moments of all processes so far."""
        found = [moment for process in self._processes for moment in process.moments()]
        for moments in self._subscribers.ask_all():
            found += moments
        return found

    def close(self) -> None:
        """Stop all processes and remove the databases."""
        self._subscribers.stop()
        super().close()


class _Listener(RoutingQueueListener):
    client_name = CLIENT

    def __init__(self, moments: Moments) -> None:
        self._moments = moments
        self._seen = 0

    def process_updates_in_log_entry_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:  # noqa: ARG002
        seen = self._seen = self._seen + len(entries)
        self._moments.passed(CALLED, seen)
        event.listen(session, "after_commit", lambda _: self._moments.passed(APPLIED, seen), once=True)
        return True

    process_updates_in_snapshot_sync = process_updates_in_log_entry_sync


def _subscribe(told: Told, url: str) -> None:
    moments, engine = Moments(), queues.create_engine(url)
    with closing(subscribe(engine, _Listener(moments))):
        told.ready()
        told.serve(lambda: moments.moments)
    engine.dispose()
