"""Database URLs. Pure."""

from pathlib import Path
from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from queues.database.dialects import DIALECTS, named, require_driver
from queues.database.schemas import in_schema, schema_of
from queues.errors import ConfigurationError
from queues.words import is_unicode

#: The drivers that SQLAlchemy takes for a URL without one.
_DEFAULT_DRIVERS: Final = {"postgresql": "psycopg2", "sqlite": "pysqlite"}

#: The beginning of URLs of other programs, which SQLAlchemy does not read.
_SHORT_NAME: Final = "postgres"


def parse(text: str) -> URL:
    """Parse the URL of a database and a driver that lrq supports; raise `ConfigurationError` for any other text."""
    if not is_unicode(text):
        raise ConfigurationError(
            "rename the file or its folder, or set LC_ALL=C.UTF-8: the URL has bytes that are not UTF-8"
        )
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # the words of ValueError repeat the text after the host's colon
        url = None
    if url is not None and url.drivername == _SHORT_NAME:
        raise ConfigurationError(f"begin the database URL with postgresql+psycopg://, not with {_SHORT_NAME}://")
    if url is None or url.get_backend_name() not in DIALECTS:
        # The error does not repeat the text: it may hold a password.
        raise ConfigurationError("write a URL such as sqlite:///paris.db or postgresql+psycopg://user@host/database")
    require_url_driver(url)
    _require_escaped(url)
    _require_values(text)
    return url


def _require_escaped(url: URL) -> None:
    """Raise `ConfigurationError` if the end of a password was read as the host or the database.

    Errors and pages name both, so such a URL would show a part of the password.
    """
    if not is_sqlite(url) and "@" in f"{url.host or ''}{url.database or ''}":
        raise ConfigurationError(
            "the database URL has an @ behind the one before its host: write each @ of a name or a password as %40"
        )


def _require_values(text: str) -> None:
    """Raise `ConfigurationError` for an option without a value, which SQLAlchemy leaves out without a word."""
    # A password may have a question mark of its own.
    options = text.rpartition("@")[2].partition("?")[2]
    if any("=" not in option for option in options.split("&") if option):
        raise ConfigurationError(
            "an option of the database URL has no value: write name=value, and each ? of a file's name as %3F"
        )


def require_url_driver(url: URL) -> None:
    """Raise `ConfigurationError` for a URL whose database or driver lrq does not support, installed or not."""
    name, _, driver = url.drivername.partition("+")
    require_driver(name, driver or _DEFAULT_DRIVERS.get(name, ""), synchronous=True)


def with_schema(url: URL, schema: str | None) -> URL:
    """Return *url* with the *schema* of lrq's tables, which `queues.create_engine` then finds; None changes nothing.

    Raises `ConfigurationError` for a malformed name, for a database without schemas, and if *url* names another one.
    """
    made = in_schema(url, schema)
    if schema_of(made) is not None and not named(made.get_backend_name()).has_schemas:
        raise ConfigurationError("SQLite has no schemas: remove `schema`")
    return made


def is_sqlite(url: URL) -> bool:
    """Tell whether *url* names a SQLite database."""
    return url.get_backend_name() == "sqlite"


def is_in_memory(url: URL) -> bool:
    """Tell whether *url* names a SQLite database without a file."""
    is_without_file = url.database in (None, "", ":memory:") or url.query.get("mode") == "memory"
    return is_sqlite(url) and (is_without_file or str(url.database).startswith("file::memory:"))


def file_of(url: URL) -> Path | None:
    """Return the file of a SQLite database; None for other databases, for memory and for SQLite's own URIs."""
    if not is_sqlite(url) or not url.database or url.database.startswith((":", "file:")):
        return None
    return Path(url.database)


def shareable(url: URL) -> URL | None:
    """Return *url* with an absolute path; None if other processes of the machine cannot open the database."""
    if not is_sqlite(url):
        return url
    file = file_of(url)
    return None if file is None else url.set(database=str(file.absolute()))
