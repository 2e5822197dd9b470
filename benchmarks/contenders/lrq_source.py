"""One source of lrq with many sessions, whose sinks store nothing."""

from types import TracebackType
from typing import Any, Final, Self

from sqlalchemy import text
from sqlalchemy.orm import Session

import queues
from benchmarks.cluster import until
from benchmarks.contender import Place
from benchmarks.contenders.lrq_servers import ServerProcess
from benchmarks.contenders.lrq_sites import CLIENT, begin_sessions, messages, site_name
from benchmarks.contenders.null_sinks import endpoint, serve_attached, serve_null
from benchmarks.contenders.tables import SOURCE
from benchmarks.contenders.workers import Workers
from benchmarks.workload import PER_TRANSACTION, Workload
from lr_client import RoutingQueueSenderClient

_READY: Final = text("SELECT count(*) FROM lrq_sessions WHERE state = 'log-entry sync'")
_ACKED: Final = text("SELECT min(acked_seq) FROM lrq_sessions")
_BYTES: Final = text(
    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'lrq\\_%'"
)


class LrqSource:
    """A source with its server; every entry goes to all destinations."""

    def __init__(
        self,
        place: Place,
        destinations: int,
        *,
        begin_seconds: float = 120.0,
        attached: bool = False,
        **settings: object,
    ) -> None:
        """Create the database; start the sinks and the server, whose sessions must work within *begin_seconds*.

        With *attached* the sinks attach themselves to the server.
        """
        place.cluster.create(SOURCE)
        self._place = place
        self.destinations = destinations
        self.engine = queues.create_engine(place.cluster.url(SOURCE))
        queues.initialize(self.engine, site_id="source")
        self._workers = Workers()
        listen = f"ipc://{place.folder / 'source.sock'}"
        if attached:
            self._workers.start(serve_attached, destinations, listen)
        else:
            self._workers.start(serve_null, destinations)
        (endpoints,) = self._workers.wait_ready()
        names = [site_name(number) for number in range(destinations)]
        peers = {
            name: f"attached:{name}" if attached else endpoint(endpoints, number) for number, name in enumerate(names)
        }
        self.settings: dict[str, Any] = {
            "site_id": "source",
            "database_url": place.cluster.url(SOURCE),
            "peers": peers,
            "listen": [listen] if attached else [],
            "clients": [CLIENT],
            "initial_sync": "log",
            **settings,
        }
        begin_sessions(self.engine, self.settings["peers"])
        self.server = ServerProcess(self.settings)
        until(lambda: self.ask(_READY) == destinations, begin_seconds, 0.1)
        self._sender = RoutingQueueSenderClient(CLIENT)
        entries = Workload(1, destinations, destinations)
        self._messages = messages([entries.entry(number) for number in range(PER_TRANSACTION)])
        self.written = 0

    def ask(self, query: Any) -> int:  # noqa: ANN401 - a statement
        """Return the number that a query gives."""
        with self.engine.connect() as connection:
            return int(connection.execute(query).scalar_one() or 0)

    def transaction(self) -> None:
        """Transmit ten entries to all destinations in one transaction."""
        with Session(self.engine) as session, session.begin():
            self._sender.transmit_log_entry_messages(session, self._messages)
        self.written += PER_TRANSACTION

    def entry(self, destination: int) -> None:
        """Transmit one entry to one destination in one transaction; `wait` does not count it."""
        target = Workload(1, self.destinations, 1).entry(0)._replace(targets=(destination,))
        with Session(self.engine) as session, session.begin():
            self._sender.transmit_log_entry_messages(session, messages([target]))

    def wait(self, timeout: float = 300) -> None:
        """Wait until every session has acknowledged every entry."""
        until(lambda: self.ask(_ACKED) >= self.written, timeout)

    def bytes(self) -> int:
        """Return the size of all tables in bytes."""
        return self.ask(_BYTES)

    def __enter__(self) -> Self:
        """Return the source."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server and the sinks, and drop the database."""
        self.server.stop()
        self._workers.stop()
        self.engine.dispose()
        self._place.cluster.drop(SOURCE)
