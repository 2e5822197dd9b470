"""Engines of SQLAlchemy whose connections Django opens, so that listeners change models in lrq's transactions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.conf import settings
from django.db import connections
from sqlalchemy import URL, Engine, NullPool, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

import queues
from lr_client.subscriber.listener_session import AROUND
from lrq.contrib.django import conf, wrappers
from lrq.contrib.django.transactions import shared
from queues.errors import ConfigurationError

_DRIVERS: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}


def engine(using: str | None = None, **options: Any) -> Engine:  # noqa: ANN401 - passed on unchanged
    """Return an engine for Django's database *using*, by default that of the setting `LRQ`; *options* as in SQLAlchemy.

    Every connection is opened and configured by Django, and differs from the connections that Django's own code uses.
    So the engine sees no uncommitted changes of a request. Keep one engine for each process, and `dispose()` it.

    Subscribed with this engine, a listener changes models in the transaction that removes its entries.

    Raises `ConfigurationError` for a database that is neither PostgreSQL nor SQLite. Raises `MissingDependencyError` if
    psycopg 3 is not installed.

    Example:
        >>> with lrq.subscribe(engine(), apply):
        ...     serve()
    """
    alias = using or conf.current().database
    if alias not in settings.DATABASES:
        raise ConfigurationError(f"DATABASES has no alias {alias!r}: name one that it has")
    made = queues.create_engine(url(connections[alias]), **options)

    @event.listens_for(made, "do_connect")
    def _connect(_dialect: object, record: ConnectionPoolEntry, *_arguments: object) -> DBAPIConnection:
        return wrappers.opened(alias, record)

    @event.listens_for(made, "connect")
    def _restore(driver: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        wrappers.restore_functions(driver, record)

    made.update_execution_options(**{AROUND: shared})
    return made


@contextmanager
def temporary(using: str) -> Iterator[Engine]:
    """Yield an `engine` for a few statements; its connection is closed at the end."""
    made = engine(using, poolclass=NullPool)
    try:
        yield made
    finally:
        made.dispose()


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
