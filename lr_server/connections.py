"""The connections of one server to its database: at most `max_connections` of the settings, and their names."""

import threading
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, NullPool, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

import queues
from queues.database import dialects
from queues.database.connection_names import connection_name
from queues.database.dialect import BRIEF_SECONDS
from queues.database.urls import is_in_memory
from queues.errors import ConfigurationError

#: The connections outside the pools: two watch commits, one takes ticks, and one stores requests of producers.
HELD: Final = 4
#: The connections for leases and status.
CONTROL: Final = 3
#: The fewest connections of a server: two are left for all sessions.
FEWEST: Final = HELD + CONTROL + 2


class OpenedConnections:
    """The open connections of a server, by their numbers at the database; for any thread."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[DBAPIConnection, int] = WeakKeyDictionary()
        self._guard = threading.Lock()

    def watch(self, engine: Engine) -> None:
        """Note each new connection of *engine* whose waits for locks have no limit."""
        dialect = dialects.of(engine)

        @event.listens_for(engine, "connect")
        def _note(driver: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
            if (number := dialect.number(driver)) is not None:
                with self._guard:
                    self._numbers[driver] = number

    def numbers(self) -> list[int]:
        """Return the numbers."""
        with self._guard:
            return sorted(self._numbers.values())


class ServerEngines(NamedTuple):
    """Two pools, so that leases never wait for sessions whose commits stand still.

    No thread uses two connections of a pool at a time. So a wait for a connection ends with the transactions of others.
    `apart` has no pool: it looks at the other connections, `opened`, while a stop takes long.
    """

    work: Engine
    control: Engine
    apart: Engine
    opened: OpenedConnections

    def dispose(self) -> None:
        """Close the connections of both pools."""
        for engine in (self.work, self.control, self.apart):
            engine.dispose()


def open_engines(url: str, site: str, most: int, lease_seconds: float) -> ServerEngines:
    """Return the engines of a server of *site* with at most *most* connections in all.

    On PostgreSQL each connection ends a transaction that stands still for *lease_seconds*. Brief ones of `control` have
    a quarter of that. So others that wait for their locks still renew in time. Raises `ConfigurationError` for a
    database in memory, of which each connection would have its own.
    """
    if is_in_memory(make_url(url)):
        raise ConfigurationError("a server needs a database that others share: name a file, such as sqlite:///paris.db")
    made = ServerEngines(
        _engine(url, connection_name(site, "server"), lease_seconds, **_pool(most - HELD - CONTROL)),
        _engine(url, connection_name(site, "control"), lease_seconds, **_pool(CONTROL)),
        _engine(url, connection_name(site, "stop"), lease_seconds, poolclass=NullPool),
        OpenedConnections(),
    )
    for each in (made.work, made.control):
        made.opened.watch(each)
    # The row of a server is renewed each third of the lease, and lives for three quarters.
    made.control.update_execution_options(**{BRIEF_SECONDS: lease_seconds / 4})
    return made


def _pool(most: int) -> dict[str, Any]:
    # The pool reuses the last connection first, because its statements are planned already.
    return {"pool_size": most, "max_overflow": 0, "pool_use_lifo": True}


def _engine(url: str, name: str, lease_seconds: float, **options: Any) -> Engine:  # noqa: ANN401 - passed on
    arguments = dialects.named(make_url(url).get_backend_name()).connect_as(make_url(url), name)
    made = queues.create_engine(url, connect_args=dict(arguments), **options)
    dialects.of(made).end_idle(made, lease_seconds)
    dialects.of(made).refuse_hidden_rows(made)
    return made
