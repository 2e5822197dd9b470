"""Engines of SQLAlchemy whose connections Django opens, so that listeners change models in lrq's transactions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.db import connections
from sqlalchemy import Engine, NullPool, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

import queues
from lr_client.subscriber.listener_session import AROUND
from lrq.contrib.django.conf import app_settings
from lrq.contrib.django.drivers import habits_of
from lrq.contrib.django.transactions import shared
from lrq.contrib.django.wrappers import opened
from queues.errors import ConfigurationError


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
    alias = using or app_settings().database
    if alias not in settings.DATABASES:
        raise ConfigurationError(f"DATABASES has no alias {alias!r}: name one that it has")
    usual: Any = connections[alias]
    habits = habits_of(usual)
    made = queues.create_engine(habits.url(usual.settings_dict), **options)

    @event.listens_for(made, "do_connect")
    def _connect(_dialect: object, record: ConnectionPoolEntry, *_arguments: object) -> DBAPIConnection:
        return opened(alias, record)

    @event.listens_for(made, "connect")
    def _repair(driver: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
        habits.connected(driver)

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
