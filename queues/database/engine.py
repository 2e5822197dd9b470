"""Engines with the settings that lrq's own processes use."""

from typing import Any

from sqlalchemy import URL, Engine
from sqlalchemy import create_engine as _create_engine

from queues.database import dialects, urls
from queues.database.sqlite_files import watch_file
from queues.errors import MissingDependencyError, UsageError


def create_engine(url: str | URL, *, schema: str | None = None, **options: Any) -> Engine:  # noqa: ANN401 - passed on
    """Return `sqlalchemy.create_engine(url, **options)`; on SQLite with WAL, a busy timeout and BEGIN IMMEDIATE.

    With *schema*, PostgreSQL also finds names in that schema, after those of the usual search path. `lrq_schema=...` in
    the query of *url* means the same, and the engine's URL has it.

    The errors of the engine do not repeat the values of statements, which may be payloads (`hide_parameters`).
    Raises `ConfigurationError` for a URL that cannot be read, and for another database or driver. Raises
    `MissingDependencyError` if the driver is not installed, and `UsageError` if *url* is no URL.
    """
    if not isinstance(url, str | URL):
        raise UsageError(f"create_engine needs a database URL, not {type(url).__name__}: such as sqlite:///paris.db")
    made = urls.with_schema(urls.parse(url) if isinstance(url, str) else url, schema)
    urls.require_url_driver(made)
    try:
        engine = _create_engine(made, **{"hide_parameters": True, **options})
    except ImportError as error:
        named = error.name if isinstance(error, ModuleNotFoundError) else made.drivername
        raise MissingDependencyError(
            f"the driver {named!r} of this database is not installed, or not whole: pip install 'lrq[postgres]'"
        ) from error
    dialects.of(engine).prepare(engine)
    if (file := urls.file_of(made)) is not None:
        watch_file(engine, file)
    return engine
