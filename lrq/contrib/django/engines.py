"""Engines of SQLAlchemy whose connections Django opens, so that both sets of statements share one transaction.

Each connection of the pool has a `DatabaseWrapper` of Django. The wrapper opens the connection as usual, with Django's
adapters, functions, time zone, role and signal. `transactions.py` lends that wrapper to the listener.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from django.conf import settings
from django.db import connections
from sqlalchemy import URL, Connection, Engine, NullPool, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

import queues
from lrq.contrib.django import conf
from queues.errors import ConfigurationError

#: The key of the wrapper in the `info` of a connection.
_WRAPPER: Final = "lrq_django"
_DRIVERS: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}


def engine(using: str | None = None, **options: Any) -> Engine:  # noqa: ANN401 - passed on unchanged
    """Return an engine for Django's database *using*, by default that of the setting `LRQ`; *options* as in SQLAlchemy.

    Every connection is opened and configured by Django, and differs from the connections that Django's own code uses.
    So the engine sees no uncommitted changes of a request. Keep one engine for each process, and `dispose()` it.

    Raises `ConfigurationError` for a database that is neither PostgreSQL nor SQLite. Raises `MissingDependencyError` if
    psycopg 3 is not installed.

    Example:
        >>> lrq.wait_applied(engine(), token, timeout=5)
    """
    alias = using or conf.current().database
    if alias not in settings.DATABASES:
        raise ConfigurationError(f"DATABASES has no alias {alias!r}: name one that it has")
    made = queues.create_engine(url(connections[alias]), **options)

    @event.listens_for(made, "do_connect")
    def _connect(_dialect: object, record: ConnectionPoolEntry, *_arguments: object) -> DBAPIConnection:
        wrapper = _opened(alias)
        record.info[_WRAPPER] = wrapper
        return cast("DBAPIConnection", wrapper.connection)

    @event.listens_for(made, "connect")
    def _restore(driver: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        if record.info[_WRAPPER].vendor == "sqlite":
            # SQLAlchemy has just replaced functions, such as REGEXP, which Django's lookups use with numbers too.
            from django.db.backends.sqlite3._functions import register

            register(driver)

    return made


@contextmanager
def temporary(using: str) -> Iterator[Engine]:
    """Yield an `engine` for a few statements; its connection is closed at the end."""
    made = engine(using, poolclass=NullPool)
    try:
        yield made
    finally:
        made.dispose()


def wrapper_of(connection: Connection) -> Any:  # noqa: ANN401 - Django has no types
    """Return Django's wrapper of a connection of an `engine`; raise `ConfigurationError` for another engine's."""
    found = connection.info.get(_WRAPPER)
    if found is None:
        raise ConfigurationError(
            "Django did not open this connection: subscribe with lrq.contrib.django.engine(), or run manage.py lrq_work"
        )
    return found


def server_cursors(wrapper: Any) -> None:  # noqa: ANN401 - Django has no types
    """Let lrq's statements bind their values at the server: Django's cursors of psycopg cannot read binary values."""
    if wrapper.vendor == "postgresql":
        import psycopg

        wrapper.connection.cursor_factory = psycopg.Cursor


def _opened(alias: str) -> Any:  # noqa: ANN401 - Django has no types
    wrapper = connections[alias].copy()
    # SQLAlchemy pools and checks the connections, and its pool outlives a request.
    wrapper.settings_dict |= {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": False}
    wrapper.settings_dict["OPTIONS"].pop("pool", None)
    # The wrapper serves one thread after another, never two at once.
    wrapper.inc_thread_sharing()
    wrapper.connect()
    if wrapper.vendor == "postgresql":
        wrapper.django_cursors = wrapper.connection.cursor_factory
        wrapper.set_autocommit(False)
        server_cursors(wrapper)
    # Otherwise `atomic` would begin a transaction in that of SQLAlchemy.
    wrapper.autocommit = False
    return wrapper


def url(wrapper: Any) -> URL:  # noqa: ANN401 - Django has no types
    """Return the URL of a database of Django; raise `ConfigurationError` unless it is PostgreSQL or SQLite."""
    if wrapper.vendor not in _DRIVERS:
        raise ConfigurationError(
            f"lrq works with SQLite and PostgreSQL, but the database {wrapper.alias!r} of Django is {wrapper.vendor}: "
            "name another alias in LRQ['DATABASE']"
        )
    given = wrapper.settings_dict
    if wrapper.vendor == "sqlite":
        return URL.create("sqlite", database=str(given["NAME"]))
    return URL.create(
        _DRIVERS[wrapper.vendor],
        username=given["USER"] or None,
        password=given["PASSWORD"] or None,
        host=given["HOST"] or None,
        port=int(given["PORT"]) if given["PORT"] else None,
        database=given["NAME"] or None,
    )
