"""The connections of one server to its database: at most `max_connections` of the settings, and their names."""

from typing import Final, NamedTuple

from sqlalchemy import Engine, make_url

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


class ServerEngines(NamedTuple):
    """Two pools, so that leases never wait for sessions whose commits stand still.

    No thread uses two connections of a pool at a time. So a wait for a connection ends with the transactions of others.
    """

    work: Engine
    control: Engine

    def dispose(self) -> None:
        """Close the connections of both pools."""
        self.work.dispose()
        self.control.dispose()


def open_engines(url: str, site: str, most: int, lease_seconds: float) -> ServerEngines:
    """Return the engines of a server of *site* with at most *most* connections in all.

    On PostgreSQL each connection ends a transaction that stands still for *lease_seconds*. Brief ones of `control` have
    a quarter of that. So others that wait for their locks still renew in time. Raises `ConfigurationError` for a
    database in memory, of which each connection would have its own.
    """
    if is_in_memory(make_url(url)):
        raise ConfigurationError("a server needs a database that others share: name a file, such as sqlite:///paris.db")
    made = ServerEngines(
        _engine(url, connection_name(site, "server"), most - HELD - CONTROL, lease_seconds),
        _engine(url, connection_name(site, "control"), CONTROL, lease_seconds),
    )
    # The row of a server is renewed each third of the lease, and lives for three quarters.
    made.control.update_execution_options(**{BRIEF_SECONDS: lease_seconds / 4})
    return made


def _engine(url: str, name: str, most: int, lease_seconds: float) -> Engine:
    arguments = dialects.named(make_url(url).get_backend_name()).connect_as(make_url(url), name)
    # The pool reuses the last connection first, because its statements are planned already.
    made = queues.create_engine(url, pool_size=most, max_overflow=0, pool_use_lifo=True, connect_args=dict(arguments))
    dialects.of(made).end_idle(made, lease_seconds)
    return made
