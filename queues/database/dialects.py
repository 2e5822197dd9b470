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
#: The drivers of each database; those of the second word serve an application's own asynchronous sessions.
_DRIVERS: Final = {"postgresql": ("psycopg", "psycopg_async"), "sqlite": ("pysqlite", "aiosqlite")}
_WRITE: Final = {"postgresql": "PostgreSQL through psycopg", "sqlite": "SQLite through Python's sqlite3"}
_BEGIN: Final = {"postgresql": "postgresql+psycopg://", "sqlite": "sqlite:///"}


def of(bind: Engine | Connection) -> Dialect:
    """Return the dialect of an engine or connection; raise `ConfigurationError` for an unknown database or driver."""
    name, driver = bind.dialect.name, bind.dialect.driver
    require_driver(name, driver)
    return DIALECTS[name]


def require_driver(name: str, driver: str, *, synchronous: bool = False) -> None:
    """Raise `ConfigurationError` for an unknown database *name* or *driver*; the sentence says how to write the URL.

    *synchronous*: refuse also the drivers for asynchronous sessions, as lrq's own engines work in threads.
    """
    if name not in DIALECTS:
        raise ConfigurationError(f"lrq works with SQLite and PostgreSQL, not with {name}: use another database URL")
    if driver not in (_DRIVERS[name][:1] if synchronous else _DRIVERS[name]):
        raise ConfigurationError(
            f"lrq works with {_WRITE[name]}, not {driver}: begin the database URL with {_BEGIN[name]}"
        )


def has_own_statements(bind: Engine | Connection) -> bool:
    """Return whether lrq has its own statements for the driver; `of` then returns the dialect."""
    return bind.dialect.driver in _DRIVERS.get(bind.dialect.name, ())


def find(bind: Engine | Connection) -> Dialect | None:
    """Return the dialect of an engine or connection with any driver; None for an unknown database."""
    return DIALECTS.get(bind.dialect.name)


def named(name: str) -> Dialect:
    """Return the dialect for a name from a database URL; raise `ConfigurationError` for an unknown name."""
    if name not in DIALECTS:
        raise ConfigurationError(f"lrq has no tables for {name!r}: choose one of {', '.join(DIALECTS)}")
    return DIALECTS[name]
