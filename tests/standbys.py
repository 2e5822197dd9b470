"""A PostgreSQL primary with two standbys, of which one must have each commit before the commit returns."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from signal import Signals
from typing import Final

from sqlalchemy import Engine, NullPool, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

import queues
from tests.clusters import Cluster, cluster
from tests.waiting import eventually

#: Names all servers. A server is never its own standby, so the setting suits each of them as primary.
ANY_1: Final = "ANY 1 (b1, b2, b3)"
_SYNCHRONOUS: Final = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'"
_RECEIVERS: Final = "SELECT count(*) FROM pg_stat_wal_receiver"


class StandbyServers:
    """Three servers by their names; `primary` is the name of the one that takes writes."""

    def __init__(self, first: Cluster) -> None:
        """Make two standbys of *first*, which follow the primary of the moment."""
        self.servers = {"b1": first, **{name: first.standby(name) for name in ("b2", "b3")}}
        self.primary = "b1"
        for name, server in self.servers.items():
            server.reload(synchronous_standby_names=ANY_1, primary_conninfo=self._primary_of(name))
        self.await_synchronous(2)

    def _hosts(self) -> Mapping[str, str]:
        return {name: str(make_url(server.url()).query["host"]) for name, server in self.servers.items()}

    def _primary_of(self, name: str) -> str:
        hosts = ",".join(host for other, host in self._hosts().items() if other != name)
        return f"host={hosts} user=postgres application_name={name} target_session_attrs=read-write"

    def url(self, drivername: str = "postgresql+psycopg") -> str:
        """Return one URL with all servers, by which a connection finds the primary."""
        hosts = ",".join(self._hosts().values())
        ports = ",".join("5432" for _ in self.servers)
        url = make_url(self.servers["b1"].url()).set(drivername=drivername, host=None)
        url = url.set(query={"host": hosts, "port": ports, "target_session_attrs": "read-write"})
        return url.render_as_string(hide_password=False)

    def site(self, site_id: str) -> Engine:
        """Initialise the database as a site; return an engine that finds the primary."""
        engine = queues.create_engine(self.url())
        queues.initialize(engine, site_id=site_id)
        return engine

    def ask(self, name: str, question: str) -> object:
        """Return the answer of one server."""
        engine = create_engine(self.servers[name].url(), poolclass=NullPool)
        with engine.connect() as connection:
            return connection.execute(text(question)).scalar_one()

    def await_synchronous(self, number: int) -> None:
        """Wait until the primary has *number* synchronous standbys."""
        eventually(lambda: self.ask(self.primary, _SYNCHRONOUS) == number, timeout=150)

    def kill_primary(self, number: Signals) -> str:
        """Kill the primary, promote the standby with the longest log, and return the name of the dead server."""
        dead = self.primary
        self.servers[dead].signal(number)
        eventually(lambda: not self._answers(dead))
        alive = [name for name in self.servers if name != dead and self._answers(name)]
        # Children of the dead server may still send: a standby with more than the new primary could not follow.
        eventually(lambda: not any(self.ask(name, _RECEIVERS) for name in alive))
        self.primary = max(alive, key=self._received)
        self.servers[self.primary].promote()
        return dead

    def _received(self, name: str) -> int:
        return int(str(self.ask(name, "SELECT coalesce(pg_last_wal_receive_lsn(), '0/0') - '0/0'::pg_lsn")))

    def _answers(self, name: str) -> bool:
        try:
            return self.ask(name, "SELECT 1") == 1
        except OperationalError:
            return False

    def rebuild(self, name: str) -> None:
        """Replace a dead server by a new standby of the primary."""
        self.servers[name].discard()
        self.servers[name] = self.servers[self.primary].standby(name)
        self.servers[name].reload(primary_conninfo=self._primary_of(name))

    def stop(self, *names: str) -> None:
        """Stop standbys in order; the primary notices at once."""
        for name in names:
            self.servers[name].halt()

    def start(self, name: str) -> None:
        """Start a stopped standby again."""
        self.servers[name].start()

    def close(self) -> None:
        """Stop every server."""
        for server in self.servers.values():
            server.stop()


@contextmanager
def standby_servers() -> Iterator[StandbyServers]:
    """Run a primary with two synchronous standbys, one of which must have each commit."""
    # A checkpoint after a promotion must not remove WAL that a slower standby still lacks.
    settings = {"wal_receiver_status_interval": "1s", "wal_retrieve_retry_interval": "100ms", "wal_keep_size": "512MB"}
    with cluster("b1", **settings) as first:
        made = StandbyServers(first)
        try:
            yield made
        finally:
            made.close()
