"""Recognise the connection of an application by the names of its classes. Pure: imports no driver."""

from enum import Enum, auto
from typing import Final


class ConnectionKind(Enum):
    """A family of connections that lrq can transmit on; those after DJANGO are asynchronous."""

    SQLALCHEMY = auto()
    PSYCOPG = auto()
    SQLITE3 = auto()
    DJANGO = auto()
    ASYNC_SQLALCHEMY = auto()
    ASYNC_PSYCOPG = auto()
    ASYNCPG = auto()
    AIOSQLITE = auto()


# The library, not the module: libraries move their classes between their modules.
_KINDS: Final = {
    ("sqlalchemy", "Session"): ConnectionKind.SQLALCHEMY,
    ("sqlalchemy", "scoped_session"): ConnectionKind.SQLALCHEMY,
    ("sqlalchemy", "Connection"): ConnectionKind.SQLALCHEMY,
    ("psycopg", "Connection"): ConnectionKind.PSYCOPG,
    ("sqlite3", "Connection"): ConnectionKind.SQLITE3,
    ("django", "BaseDatabaseWrapper"): ConnectionKind.DJANGO,
    ("django", "ConnectionProxy"): ConnectionKind.DJANGO,
    ("sqlalchemy", "AsyncSession"): ConnectionKind.ASYNC_SQLALCHEMY,
    ("sqlalchemy", "async_scoped_session"): ConnectionKind.ASYNC_SQLALCHEMY,
    ("sqlalchemy", "AsyncConnection"): ConnectionKind.ASYNC_SQLALCHEMY,
    ("psycopg", "AsyncConnection"): ConnectionKind.ASYNC_PSYCOPG,
    ("asyncpg", "Connection"): ConnectionKind.ASYNCPG,
    ("asyncpg", "PoolConnectionProxy"): ConnectionKind.ASYNCPG,
    ("aiosqlite", "Connection"): ConnectionKind.AIOSQLITE,
}


def kind_of(given: object) -> ConnectionKind | None:
    """Return the kind of a connection or session, also of a subclass; None for any other object and for a class."""
    found = (kind_of_class(base.__module__, base.__name__) for base in type(given).__mro__)
    kind = next((kind for kind in found if kind is not None), None)
    # Django's proxies lead to caches too.
    return None if kind is ConnectionKind.DJANGO and not hasattr(given, "vendor") else kind


def kind_of_class(module: str, name: str) -> ConnectionKind | None:
    """Return the kind of a class by its *name* and the full name of its *module*; None for any other class."""
    return _KINDS.get((module.partition(".")[0], name))
