"""Where a site is: its database and its id, from options, `LRQ_*` variables or `lrq.toml`."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError

import queues
from queues import names
from queues.errors import ConfigurationError, NotInitializedError
from queues.migrate import DIALECTS, require
from queues.names import SiteId

DEFAULT_FILE: Final = "lrq.toml"
#: How long a database that does not answer is waited for, in seconds.
CONNECT_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class Place:
    """A site's database; `site` is None where nobody has said whose it should be."""

    url: URL
    site: SiteId | None

    @property
    def shown(self) -> str:
        """The URL without its password, which may also stand in the query."""
        return self.url.set(query={}).render_as_string(hide_password=True)


@dataclass(frozen=True, slots=True)
class OpenSite:
    """A site whose tables are there and fit."""

    engine: Engine
    site: SiteId
    place: Place


def locate(config: Path | None, database: str | None, site: str | None) -> Place:
    """Find a site's database: options come first, then variables, then the file.

    Other settings need not be there, nor be right. Raises `ConfigurationError` when no database is named.
    """
    written = _written(config)
    url = database or _setting("database_url", written)
    site_id = site or _setting("site_id", written)
    if not url:
        raise ConfigurationError(
            f"no database is named: give --database, set LRQ_DATABASE_URL, or write database_url in {DEFAULT_FILE}"
        )
    return Place(_checked(url), None if site_id is None else names.site_id(site_id))


@contextmanager
def opened(config: Path | None, database: str | None, site: str | None) -> Iterator[OpenSite]:
    """Open the site's database; raises the errors of `locate`, and `SetupError` when it is not ready or another's."""
    place = locate(config, database, site)
    with engine_of(place) as engine:
        yield OpenSite(engine, require(engine, site_id=place.site).site_id, place)


@contextmanager
def engine_of(place: Place, *, must_exist: bool = True) -> Iterator[Engine]:
    """Give an engine that fails in time."""
    if must_exist:
        require_file(place.url)
    options: dict[str, object] = {}
    if place.url.get_backend_name() == "postgresql" and "connect_timeout" not in place.url.query:
        options["connect_args"] = {"connect_timeout": CONNECT_SECONDS}
    engine = queues.create_engine(place.url, **options)
    try:
        yield engine
    finally:
        engine.dispose()


def require_file(url: URL) -> None:
    """Raise `NotInitializedError` for a SQLite database that is not there: opening it would make an empty one."""
    path = _file_of(url)
    if path is not None and not path.exists():
        raise NotInitializedError(f"there is no database {path}: run `lrq init`, or correct the database URL")


def _setting(name: str, written: Mapping[str, object]) -> str | None:
    # An empty variable is none, as for the server.
    value = os.environ.get(f"LRQ_{name.upper()}") or written.get(name)
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{name} must be a string, not {type(value).__name__}")
    return value


def _written(config: Path | None) -> Mapping[str, object]:
    file = config or Path(DEFAULT_FILE)
    if config is None and not file.exists():
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:  # also a UnicodeDecodeError
        raise ConfigurationError(f"{file} is no TOML: {error}") from None


def _checked(text: str) -> URL:
    try:
        url = make_url(text)
        known = url.get_backend_name() in DIALECTS
    except ArgumentError:
        known = False
    if not known:
        # The text itself is not repeated: it may hold a password.
        raise ConfigurationError(
            "the database URL cannot be read: write one such as sqlite:///paris.db or "
            "postgresql+psycopg://user@host/database"
        )
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise ConfigurationError("a database in memory is gone with the command: name a file, sqlite:///paris.db")
    return url


def _file_of(url: URL) -> Path | None:
    """Return the file of a SQLite database; None for any other, and for SQLite's own URIs."""
    is_plain = url.get_backend_name() == "sqlite" and url.database and not url.database.startswith((":", "file:"))
    return Path(str(url.database)) if is_plain else None
