"""One source of lrq with several server processes, which catch up with sinks that come late and store nothing."""

from itertools import count
from multiprocessing import get_context
from types import TracebackType
from typing import Any, Final, Self

from sqlalchemy import text

import queues
from benchmarks.cluster import until
from benchmarks.contender import Place
from benchmarks.contenders.held_sinks import serve_held_at
from benchmarks.contenders.lrq_servers import ServerProcess, stop_all
from benchmarks.contenders.lrq_sites import CLIENT, begin_sessions
from benchmarks.contenders.tables import SOURCE
from benchmarks.contenders.workers import Workers
from benchmarks.workload import payloads
from discovery.ranges import range_of
from lr_client import LRMessageWithDestinations, RoutingQueueSenderClient

_LEADERS: Final = text("SELECT count(DISTINCT server) FROM lrq_ranges WHERE server <> ''")
_LED: Final = text("SELECT count(*) FROM lrq_ranges WHERE server <> ''")
_TICKED: Final = text("SELECT coalesce(max(end_seq), 0) FROM lrq_ticks")
#: Entries of one transaction of the backlog.
_PER_TRANSACTION: Final = 100


class SharedSource:
    """A source whose sessions are shared evenly: each has a range of its own, and there are no other ranges."""

    def __init__(self, place: Place, dialect: str, sessions: int, servers: int) -> None:
        """Create the database of *dialect*; start *servers* processes, and wait until they lead all sessions."""
        self._place = place
        self._file = place.folder / f"{SOURCE}.db"
        self._on_postgresql = dialect == "postgresql"
        if self._on_postgresql:
            place.cluster.create(SOURCE)
        url = place.cluster.url(SOURCE) if self._on_postgresql else f"sqlite:///{self._file}"
        self._engine = queues.create_engine(url)
        queues.initialize(self._engine, site_id="source")
        self._endpoint = f"ipc://{place.folder}/null.socket"
        self._sites = _sites(sessions)
        begin_sessions(self._engine, self._sites)
        settings: dict[str, Any] = {
            "site_id": "source", "database_url": url, "listen": [], "clients": [CLIENT], "initial_sync": "log",
            "peers": dict.fromkeys(self._sites, self._endpoint), "ranges": sessions,
            "retry_first_seconds": 0.1, "retry_cap_seconds": 0.2, "slow_retry_seconds": 0.2,
            # The sinks hold back for as long as the other sessions need to come.
            "stall_seconds": 600.0,
        }  # fmt: skip
        self._workers = Workers()
        self._servers = [ServerProcess(settings) for _ in range(servers)]
        until(lambda: (self._ask(_LEADERS), self._ask(_LED)) == (servers, sessions), 60, 0.1)
        self._sender = RoutingQueueSenderClient(CLIENT)

    def _ask(self, query: Any) -> int:  # noqa: ANN401 - a statement
        with self._engine.connect() as connection:
            return int(connection.execute(query).scalar_one() or 0)

    def write(self, entries: int) -> None:
        """Write a backlog of *entries*, each for all sessions, and wait until ticks cover it."""
        different = payloads()
        for first in range(0, entries, _PER_TRANSACTION):
            numbers = range(first, min(first + _PER_TRANSACTION, entries))
            sent = [LRMessageWithDestinations(different[number % len(different)], self._sites) for number in numbers]
            with self._engine.begin() as connection:
                self._sender.transmit_log_entry_messages(connection, sent)
        until(lambda: self._ask(_TICKED) >= entries, 120, 0.1)

    def catch_up(self, entries: int) -> float:
        """Start the sinks, wait for all sessions, release them; return the seconds until each has sent *entries*."""
        released = get_context("spawn").Event()
        self._workers.start(serve_held_at, self._endpoint, len(self._sites), entries, released)
        self._workers.wait_told(120)
        self._place.cluster.settle()
        released.set()
        (seconds,) = self._workers.wait_told(600)
        return float(seconds)

    def __enter__(self) -> Self:
        """Return the source."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the servers and the sinks, and remove the database."""
        stop_all(self._servers)
        self._workers.stop()
        self._engine.dispose()
        if self._on_postgresql:
            self._place.cluster.drop(SOURCE)
        for file in self._file.parent.glob(f"{self._file.name}*"):
            file.unlink()


def _sites(sessions: int) -> list[str]:
    """Return names of sites whose sessions fall into different ranges."""
    found: dict[int, str] = {}
    for number in count():
        found.setdefault(range_of(CLIENT, f"sink{number}", sessions), f"sink{number}")
        if len(found) == sessions:
            break
    return list(found.values())
