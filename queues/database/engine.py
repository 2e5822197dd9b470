"""Engines with the settings that lrq's own processes use."""

from typing import Any

from sqlalchemy import URL, Engine
from sqlalchemy import create_engine as _create_engine

from queues.database import dialects
from queues.errors import MissingDependencyError


def create_engine(url: str | URL, **options: Any) -> Engine:  # noqa: ANN401 - passed on unchanged
    """Return `sqlalchemy.create_engine(url, **options)`; on SQLite with WAL, a busy timeout and BEGIN IMMEDIATE.

    The errors of the engine do not repeat the values of statements, which may be payloads (`hide_parameters`).
    Raises `MissingDependencyError` if the database's driver is not installed.
    """
    try:
        engine = _create_engine(url, **{"hide_parameters": True, **options})
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"the driver {error.name!r} of this database is not installed: pip install 'lrq[postgres]'"
        ) from error
    # An unknown database or driver is refused where lrq first uses the engine.
    dialect = dialects.find(engine)
    if dialect is not None:
        dialect.prepare(engine)
    return engine
