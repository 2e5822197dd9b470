"""Count the servers that have a copy of the database before a commit returns, and tell why commits wait."""

from sqlalchemy import Connection, Engine

from queues.database import dialects
from queues.database.standby_facts import StandbyFacts
from queues.database.transactions import reading
from queues.errors import ConfigurationError


def followers(engine: Engine) -> int | None:
    """Return the number of synchronous standby servers that follow now; None for a database that has none, as SQLite.

    The question is one short read, which waits for no commit. Raises `ConfigurationError` if the role may not see
    standby servers, and the errors of `reading`.
    """
    with reading(engine) as connection:
        found = standby_facts(connection)
    if found is not None and found.present is None:
        raise ConfigurationError("the role may not see the standby servers: run `lrq grant` as a superuser")
    return None if found is None else found.present


def standby_facts(connection: Connection) -> StandbyFacts | None:
    """Return the facts about synchronous standby servers; None for a database that has none, as SQLite."""
    return dialects.of(connection).standbys(connection)
