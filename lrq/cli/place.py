"""Find a site's database and id in options, `LRQ_*` variables or `lrq.toml`."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from sqlalchemy import URL, Engine

import queues
from discovery.site_file import DEFAULT_FILE, read_site_file
from lr_client.arguments import MAX_PAYLOAD_BYTES
from queues import names
from queues.clock import SYSTEM_CLOCK
from queues.database import dialects, urls
from queues.database.connection_names import connection_name
from queues.database.migrations import require
from queues.errors import ConfigurationError, NotInitializedError
from queues.names import SiteId

if TYPE_CHECKING:
    from lr_server import Settings

#: Time limit for connecting to a database, in seconds.
CONNECT_SECONDS: Final = 10
#: The name of connections that only lrq itself uses.
_COMMAND: Final = "command"
_FEW: Final[Mapping[str, int]] = {}
#: How often a waiting command looks for the tables, in seconds.
_LOOK: Final = 0.2
#: The most connections of a process whose threads follow one queue each. One of them receives notifications.
WORKER_CONNECTIONS: Final = 20
#: The most snapshots that a provider builds at a time.
_BUILDS: Final = 2


def worker_pool(connections: int = WORKER_CONNECTIONS) -> Mapping[str, int]:
    """Return the options of the pool of a worker with so many *connections*, 3 or more."""
    # A pool closes the connections above its size after each use. To open one takes longer than most uses.
    return {"pool_size": connections - 1, "max_overflow": 0, "pool_use_lifo": True}


def provider_pool(connections: int) -> tuple[Mapping[str, int], int]:
    """Return the options of the pool of a provider, and its builds at a time, for 3 *connections* or more.

    Each build holds its cut on a connection outside the pool, and reads on another one. One more is for the writes of
    all builds and for the requests, so that no build waits for another.
    """
    builds = min(_BUILDS, (connections - 1) // 2)
    return _pool_of(connections - builds), builds


def _pool_of(connections: int) -> Mapping[str, int]:
    kept = min(connections, 5)
    return {"pool_size": kept, "max_overflow": connections - kept}


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
        raise ConfigurationError(_no_database(str(config or DEFAULT_FILE), written))
    located = urls.with_schema(_checked(url), _setting("schema", written))
    return SitePlace(located, None if site_id is None else names.site_id(site_id), written)


def _no_database(file: str, written: Mapping[str, object]) -> str:
    if near := get_close_matches("database_url", written, n=1):
        return f"no database is named: {file} has {near[0]!r}, did you mean 'database_url'?"
    return f"no database is named: give --database, set LRQ_DATABASE_URL, or write database_url in {file}"


@contextmanager
def opened(
    config: Path | None,
    database: str | None,
    site: str | None,
    *,
    pool: Mapping[str, int] = _FEW,
    role: str = _COMMAND,
    wait: float = 0.0,
) -> Iterator[OpenSite]:
    """Open the site's database; *pool* are options of SQLAlchemy's pool, and *role* names the connections.

    Wait up to *wait* seconds for tables that another process makes now, such as `lrq serve --init`.
    Raises the errors of `locate`, and `SetupError` if tables are missing, do not fit or belong to another site.
    """
    place = locate(config, database, site)
    _await_tables(place, wait)
    with engine_of(place, pool=pool, role=role) as engine:
        yield OpenSite(engine, require(engine, site_id=place.site).site_id, place)


def _await_tables(place: SitePlace, seconds: float) -> None:
    """Return once the site has tables, or after *seconds*; tell on stderr that the command waits."""
    until = SYSTEM_CLOCK.monotonic() + seconds
    is_told = False
    while (left := until - SYSTEM_CLOCK.monotonic()) > 0 and not _has_tables(place):
        if not is_told:
            is_told = True
            words = f"no tables yet in {place.shown}: waiting up to {seconds:g} s for `lrq init` or `lrq serve --init`"
            typer.echo(f"lrq: {words}", err=True)
        SYSTEM_CLOCK.wait(threading.Event(), min(_LOOK, left))


def _has_tables(place: SitePlace) -> bool:
    try:
        with engine_of(place) as engine:
            require(engine, site_id=place.site)
    except NotInitializedError:
        return False
    return True


@contextmanager
def engine_of(
    place: SitePlace, *, must_exist: bool = True, pool: Mapping[str, int] = _FEW, role: str = _COMMAND
) -> Iterator[Engine]:
    """Yield an engine that fails if connecting takes longer than `CONNECT_SECONDS`; for *pool* see `opened`."""
    if must_exist:
        require_file(place.url)
    dialect = dialects.named(place.url.get_backend_name())
    limit = dialect.connect_within(place.url, CONNECT_SECONDS)
    name = dialect.connect_as(place.url, connection_name(place.site, role))
    options: dict[str, Any] = {"connect_args": {**limit, **name}, **pool}
    engine = queues.create_engine(place.url, **options)
    if role == _COMMAND:
        # The other roles share their connections with the application, whose own tables may have policies.
        dialect.refuse_hidden_rows(engine)
    try:
        yield engine
    finally:
        engine.dispose()


def settings_of(config: Path | None, here: OpenSite) -> "Settings":
    """Return the settings of a server of the site *here*; raise `ConfigurationError` if one of them is wrong."""
    from lr_server import Settings

    url = here.place.url.render_as_string(hide_password=False)
    return Settings.load(config, database_url=url, site_id=here.site)


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
    if urls.is_in_memory(url):
        raise ConfigurationError("a database in memory ends with the command: name a file, such as sqlite:///paris.db")
    return url
