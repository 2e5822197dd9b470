"""Choose the dialect of an engine or connection, here and nowhere else, by the name of its database."""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, Engine

from queues.database import sqlite
from queues.database.dialect import Dialect
from queues.database.postgresql import dialect as postgresql
from queues.errors import ConfigurationError

SQLITE: Final[Dialect] = sqlite.DIALECT
POSTGRESQL: Final[Dialect] = postgresql.DIALECT

#: The dialects by their names in database URLs.
DIALECTS: Final[Mapping[str, Dialect]] = {"postgresql": POSTGRESQL, "sqlite": SQLITE}
_PSYCOPG: Final = ("psycopg", "psycopg_async")


def of(bind: Engine | Connection) -> Dialect:
    """Return the dialect of an engine or connection; raise `ConfigurationError` for an unknown database or driver."""
    name, driver = bind.dialect.name, bind.dialect.driver
    if name not in DIALECTS:
        raise ConfigurationError(f"lrq works with SQLite and PostgreSQL, not with {name}: use another database URL")
    if name == "postgresql" and driver not in _PSYCOPG:
        raise ConfigurationError(
            f"lrq works with PostgreSQL through psycopg, not {driver}: begin the database URL with postgresql+psycopg://"
        )
    return DIALECTS[name]


def find(bind: Engine | Connection) -> Dialect | None:
    """Return the dialect of an engine or connection with any driver; None for an unknown database."""
    return DIALECTS.get(bind.dialect.name)


def named(name: str) -> Dialect:
    """Return the dialect for a name from a database URL; raise `ConfigurationError` for an unknown name."""
    if name not in DIALECTS:
        raise ConfigurationError(f"lrq has no tables for {name!r}: choose one of {', '.join(DIALECTS)}")
    return DIALECTS[name]
