"""Find a site's database and id in options, `LRQ_*` variables or `lrq.toml`."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Engine

import queues
from discovery.site_file import DEFAULT_FILE, read_site_file
from lr_client.arguments import MAX_PAYLOAD_BYTES
from queues import names
from queues.database import dialects, urls
from queues.database.connection_names import connection_name
from queues.database.migrations import require
from queues.errors import ConfigurationError, NotInitializedError
from queues.names import SiteId

#: Time limit for connecting to a database, in seconds.
CONNECT_SECONDS: Final = 10
_FEW: Final[Mapping[str, int]] = {}
#: Options of the pool of a process whose threads follow one queue each.
WORKER_POOL: Final[Mapping[str, int]] = {"pool_size": 5, "max_overflow": 75}


@dataclass(frozen=True, slots=True)
class SitePlace:
    """A site's database; `site` is None if no site id is configured. `written` has the values of the site's file."""

    url: URL
    site: SiteId | None
    written: Mapping[str, object] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The URL without password and query: a query may hold the password too."""
        return self.url.set(query={}).render_as_string(hide_password=True)


@dataclass(frozen=True, slots=True)
class OpenSite:
    """A site whose tables exist and have the right schema."""

    engine: Engine
    site: SiteId
    place: SitePlace


def locate(config: Path | None, database: str | None, site: str | None) -> SitePlace:
    """Find a site's database: options come first, then variables, then the file.

    Other settings are neither needed nor checked. Raises `ConfigurationError` when no database is named.
    """
    written = _written(config)
    url = database or _setting("database_url", written)
    site_id = site or _setting("site_id", written)
    if not url:
        raise ConfigurationError(
            f"no database is named: give --database, set LRQ_DATABASE_URL, or write database_url in {DEFAULT_FILE}"
        )
    located = urls.with_schema(_checked(url), _setting("schema", written))
    return SitePlace(located, None if site_id is None else names.site_id(site_id), written)


@contextmanager
def opened(
    config: Path | None,
    database: str | None,
    site: str | None,
    *,
    pool: Mapping[str, int] = _FEW,
    role: str = "command",
) -> Iterator[OpenSite]:
    """Open the site's database; *pool* are options of SQLAlchemy's pool, and *role* names the connections.

    Raises the errors of `locate`, and `SetupError` if tables are missing, do not fit or belong to another site.
    """
    place = locate(config, database, site)
    with engine_of(place, pool=pool, role=role) as engine:
        yield OpenSite(engine, require(engine, site_id=place.site).site_id, place)


@contextmanager
def engine_of(
    place: SitePlace, *, must_exist: bool = True, pool: Mapping[str, int] = _FEW, role: str = "command"
) -> Iterator[Engine]:
    """Yield an engine that fails if connecting takes longer than `CONNECT_SECONDS`; for *pool* see `opened`."""
    if must_exist:
        require_file(place.url)
    dialect = dialects.named(place.url.get_backend_name())
    limit = dialect.connect_within(place.url, CONNECT_SECONDS)
    name = dialect.connect_as(place.url, connection_name(place.site, role))
    options: dict[str, Any] = {"connect_args": {**limit, **name}, **pool}
    engine = queues.create_engine(place.url, **options)
    try:
        yield engine
    finally:
        engine.dispose()


def require_file(url: URL) -> None:
    """Raise `NotInitializedError` if a SQLite file does not exist: opening would create an empty database."""
    path = urls.file_of(url)
    if path is not None and not path.parent.is_dir():
        raise NotInitializedError(
            f"there is no database {path}, and no folder {path.parent.absolute()}: correct the database URL"
        )
    if path is not None and not path.exists():
        raise NotInitializedError(f"there is no database {path}: run `lrq init`, or correct the database URL")


def max_payload_bytes(place: SitePlace) -> int:
    """Return the limit of a payload that the site's server has: the variable, the file, or the default."""
    value = os.environ.get("LRQ_MAX_PAYLOAD_BYTES") or place.written.get("max_payload_bytes", MAX_PAYLOAD_BYTES)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    raise ConfigurationError("max_payload_bytes must be a number of bytes")


def _setting(name: str, written: Mapping[str, object]) -> str | None:
    # An empty variable counts as unset, as in the server.
    value = os.environ.get(f"LRQ_{name.upper()}") or written.get(name)
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{name} must be a string, not {type(value).__name__}")
    return value


def _written(config: Path | None) -> Mapping[str, object]:
    file = config or Path(DEFAULT_FILE)
    if config is None and not file.exists():
        return {}
    return read_site_file(file)


def _checked(text: str) -> URL:
    try:
        url = urls.parse(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"the database URL cannot be read: {error}") from None
    if urls.is_sqlite(url) and url.database in (None, "", ":memory:"):
        raise ConfigurationError("a database in memory ends with the command: name a file, such as sqlite:///paris.db")
    return url
