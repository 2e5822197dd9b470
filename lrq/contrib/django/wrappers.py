"""Django's wrappers of the connections in a pool of SQLAlchemy.

Each connection of an engine has a `DatabaseWrapper` of its own. The wrapper opens the connection as usual, with the
adapters, functions, time zone, role and signal of Django. `transactions.py` lends that wrapper to a listener.
"""

from typing import Any, Final, cast

from django.db import connections
from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from lrq.contrib.django.drivers import habits_of

#: The key of the wrapper in the `info` of a connection.
_WRAPPER: Final = "lrq_django"


def opened(alias: str, record: ConnectionPoolEntry) -> DBAPIConnection:
    """Open a connection to Django's database *alias*, and keep its wrapper in *record*; raises the driver's errors."""
    wrapper: Any = connections[alias].copy()
    # SQLAlchemy pools and checks the connections, and its pool outlives a request.
    wrapper.settings_dict |= {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": False}
    wrapper.settings_dict["OPTIONS"].pop("pool", None)
    # The wrapper serves one thread after another, never two at once.
    wrapper.inc_thread_sharing()
    wrapper.connect()
    habits_of(wrapper).opened(wrapper)
    # `atomic` then takes the transaction of SQLAlchemy for that of the application, and makes savepoints.
    wrapper.autocommit = False
    record.info[_WRAPPER] = wrapper
    return cast("DBAPIConnection", wrapper.connection)


def wrapper_of(connection: Connection) -> Any:  # noqa: ANN401 - Django has no types
    """Return Django's wrapper of a connection that `opened` has opened."""
    return connection.info[_WRAPPER]
