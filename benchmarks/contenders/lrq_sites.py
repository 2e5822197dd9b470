"""lrq between sites in databases of the run's PostgreSQL, or in SQLite files."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, text

import queues
from benchmarks.cluster import Cluster, until
from benchmarks.contender import Place
from benchmarks.contenders.lrq_servers import ServerProcess, stop_all
from benchmarks.contenders.tables import SOURCE, destination_name
from benchmarks.workload import Entry
from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient
from lr_server.session.table import ensure
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey

CLIENT: Final = "bench"
_READY = text("SELECT count(*) FROM lrq_sessions WHERE state = 'log-entry sync'")
# The newest marks, from the end of their index, read without SQLAlchemy: as cheap as the other contenders' query.
_PROGRESS: Final = (
    "SELECT coalesce((SELECT seq FROM lrq_receive_marks ORDER BY queue_id DESC, version DESC LIMIT 1), 0)"
)
# Numbers that two blocks have in common count once in the second sum.
_STORED = text(
    "SELECT coalesce(sum(row_count), 0), coalesce(sum(CASE WHEN earlier > end_seq - row_count THEN end_seq - earlier"
    " ELSE row_count END), 0) FROM (SELECT end_seq, row_count,"
    " lag(end_seq, 1, 0) OVER (PARTITION BY queue_id ORDER BY end_seq) AS earlier FROM lrq_receive_blocks) AS blocks"
)


def site_name(number: int) -> str:
    """Return the site id of a destination."""
    return f"sink{number}"


def begin_sessions(engine: Engine, sites: Iterable[str]) -> None:
    """Record the sessions, so that the server begins them before the first entry."""
    for site in sites:
        ensure(engine, SessionKey(ClientName(CLIENT), SiteId(site)))


class Lrq:
    """One server process for the source and one per destination: a site is one database with one server."""

    ordered = True
    #: Whether the servers count their CPU time by stage.
    profiled = False

    def __init__(self, name: str, **settings: object) -> None:
        """Start nothing yet; *settings* replace defaults of the source's server."""
        self.name = name
        self.source: ServerProcess
        self.engine: Engine
        self._peers: dict[str, str] = {}
        self._settings: dict[str, Any] = {"initial_sync": "log"} | settings
        self._sender = RoutingQueueSenderClient(CLIENT)
        self._processes: list[ServerProcess] = []
        self._eyes: list[Connection] = []
        self._engines: list[Engine] = []

    def _make(self, place: Place, name: str) -> str:
        """Create an empty database; return its URL."""
        raise NotImplementedError

    def _remove(self) -> None:
        raise NotImplementedError

    def prepare(self, place: Place, destinations: int) -> None:
        """Start the sinks, then the source, and wait until every session replicates the log."""
        peers = {}
        for number in range(destinations):
            site = site_name(number)
            sink = self._site(place, destination_name(number), site)
            process = self._run(site, sink, listen=["tcp://127.0.0.1:0"])
            peers[site] = process.endpoints[0]
            self._eyes.append(sink.connect().execution_options(isolation_level="AUTOCOMMIT"))
        self.engine = self._site(place, SOURCE, "source")
        self._peers = peers
        begin_sessions(self.engine, peers)
        self.restart()
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            until(lambda: connection.execute(_READY).scalar_one() == destinations, 60)

    def restart(self) -> None:
        """Start the source's server, also after a stop."""
        self.source = self._run("source", self.engine, peers=self._peers, clients=[CLIENT], **self._settings)

    @property
    def servers(self) -> tuple[int, ...]:
        """The process ids of lrq's servers."""
        return tuple(process.pid for process in self._processes)

    @property
    def engines(self) -> Sequence[Engine]:
        """The engines of all sites, the source's last."""
        return tuple(self._engines)

    def cpu_by_stage(self) -> list[dict[str, float]]:
        """Return the CPU seconds of each profiled server by stage, the source's first."""
        sinks = [process for process in self._processes if process is not self.source]
        return [process.cpu_by_stage() for process in (self.source, *sinks)]

    def _site(self, place: Place, database: str, site: str) -> Engine:
        engine = queues.create_engine(self._make(place, database))
        queues.initialize(engine, site_id=site)
        self._engines.append(engine)
        return engine

    def _run(self, site: str, engine: Engine, **settings: object) -> ServerProcess:
        url = engine.url.render_as_string(hide_password=False)
        process = ServerProcess({"site_id": site, "database_url": url, **settings}, profiled=self.profiled)
        self._processes.append(process)
        return process

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Transmit the entries in one transaction, on a connection, as the other contenders' writers do."""
        with self.engine.begin() as connection:
            self._sender.transmit_log_entry_messages(connection, messages(entries))

    def progress(self, destination: int) -> int:
        """Return the sequence of the newest entry that the sink has committed."""
        driver: Any = self._eyes[destination].connection.driver_connection
        return int(driver.execute(_PROGRESS).fetchone()[0])

    def stored(self, destination: int) -> tuple[int, int]:
        """Count the rows of the receive queue."""
        rows, different = self._eyes[destination].execute(_STORED).one()
        return int(rows), int(different)

    def close(self) -> None:
        """Stop all servers and remove the databases."""
        stop_all(self._processes)
        for eye in self._eyes:
            eye.close()
        for engine in self._engines:
            engine.dispose()
        self._remove()


class LrqOnPostgreSQL(Lrq):
    """lrq with sites in databases of the run's server."""

    def __init__(self, **settings: object) -> None:
        """Start nothing yet."""
        super().__init__("lrq on PostgreSQL", **settings)
        self._drops: list[Callable[[], None]] = []

    def _make(self, place: Place, name: str) -> str:
        cluster: Cluster = place.cluster
        cluster.create(name)
        self._drops.append(partial(cluster.drop, name))
        return cluster.url(name)

    def _remove(self) -> None:
        for drop in self._drops:
            drop()


class LrqOnSQLite(Lrq):
    """lrq with sites in SQLite files."""

    def __init__(self) -> None:
        """Start nothing yet."""
        super().__init__("lrq on SQLite")
        self._files: list[Path] = []

    def _make(self, place: Place, name: str) -> str:
        file = place.folder / f"{name}.db"
        self._files.append(file)
        return f"sqlite:///{file}"

    def _remove(self) -> None:
        for file in self._files:
            for each in file.parent.glob(f"{file.name}*"):
                each.unlink()


def messages(entries: Sequence[Entry]) -> list[LRMessageWithDestinations]:
    """Return the entries as messages of lrq."""
    return [
        LRMessageWithDestinations(entry.payload, [site_name(target) for target in entry.targets]) for entry in entries
    ]
