"""Opening the log-entry queue of a database."""

from sqlalchemy import Engine

from queues.dialects.postgresql_log import PostgresqlLog
from queues.dialects.sqlite_log import SqliteLog
from queues.log.port import Limits, Log


def open_log(engine: Engine, limits: Limits | None = None) -> Log:
    """Return the log-entry queue of *engine*'s database, with the limits of one tick."""
    if engine.dialect.name == "sqlite":
        return SqliteLog(engine, limits or Limits())
    return PostgresqlLog(engine, limits or Limits())
