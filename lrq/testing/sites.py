"""Sites in the process of a test: one with a database only, or several that replicate to each other."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import queues
from lr_server import LogReplicationServer, Settings
from lrq.testing.local_site import LocalSite
from queues import names
from queues.database import migrations
from queues.errors import PeerUnreachableError, UsageError
from sink import local

#: Short intervals, in seconds, so that a test waits for no timer. A session begins with the log: most tests have no
#: provider of snapshots.
QUICK: Final[dict[str, Any]] = {
    "initial_sync": "log",
    "heartbeat_seconds": 0.1,
    "snapshot_poll_seconds": 0.02,
    "idle_poll_seconds": 0.02,
    "tick_interval_seconds": 0.005,
    "retry_first_seconds": 0.02,
    "retry_cap_seconds": 0.2,
    "slow_retry_seconds": 0.2,
}
#: A file system in memory: files there need no disk, and threads share them, unlike SQLite's databases in memory.
_MEMORY: Final = Path("/dev/shm")
_ENOUGH_BYTES: Final = 64 * 1024**2


@contextmanager
def site(site_id: str = "paris", *, folder: str | os.PathLike[str] | None = None) -> Iterator[LocalSite]:
    """Make an initialized site without a server: for `transmitted`, `deliver` and the application's own code.

    The database is a SQLite file in *folder*, or in a temporary folder, in memory where the system allows that.

    Example:
        >>> with site("paris") as paris, paris.session() as session: ...
    """
    with _sites((site_id,), folder) as ((alone,), _):
        yield alone


@contextmanager
def pair(
    *site_ids: str,
    folder: str | os.PathLike[str] | None = None,
    **settings: Any,  # noqa: ANN401 - fields of `Settings`
) -> Iterator[tuple[LocalSite, ...]]:
    """Make two or more sites in this process, whose servers replicate to each other without a network.

    *settings* are fields of `lr_server.Settings` for all servers, in place of `QUICK`. For *folder* see `site`. At the
    end all subscriptions, servers and sessions are closed, also after an exception.

    Raises `UsageError` for fewer than two different ids, and while servers of these sites run in this process.

    Example:
        >>> with pair("paris", "tokyo") as (paris, tokyo):
        ...     tokyo.subscribe(Apply())
        ...     paris.send("policy", b"rule 1")
        ...     paris.settle()
    """
    if len(set(site_ids)) < max(len(site_ids), 2):
        raise UsageError("pair needs two or more different site ids: pair('paris', 'tokyo')")
    for site_id in site_ids:
        _require_absent(site_id)
    with _sites(site_ids, folder) as (made, stack):
        for each in made:
            each.others = tuple(other for other in made if other is not each)
            peers = {other.site_id: f"local:{other.site_id}" for other in each.others}
            url = each.engine.url.render_as_string(hide_password=False)
            given = {"site_id": each.site_id, "database_url": url, "peers": peers, "listen": (), **QUICK, **settings}
            each.server = stack.enter_context(LogReplicationServer(Settings(**given)))
        for each in made:
            stack.callback(each.close_sessions)
        yield made


def _require_absent(site_id: str) -> None:
    try:
        local.find(names.site_id(site_id))
    except PeerUnreachableError:
        return
    raise UsageError(f"a server of site {site_id!r} runs in this process already: close it, or use another site id")


@contextmanager
def _sites(
    site_ids: tuple[str, ...], folder: str | os.PathLike[str] | None
) -> Iterator[tuple[tuple[LocalSite, ...], ExitStack]]:
    with ExitStack() as stack:
        place = Path(folder) if folder is not None else Path(stack.enter_context(_temporary_folder()))
        made = []
        for site_id in map(names.site_id, site_ids):
            engine = queues.create_engine(f"sqlite:///{_new_file(place, site_id)}")
            stack.callback(engine.dispose)
            queues.initialize(engine, site_id=site_id)
            made.append(LocalSite(site_id, engine, stack))
            stack.callback(made[-1].close_sessions)
        yield tuple(made), stack


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    is_roomy = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH_BYTES
    return tempfile.TemporaryDirectory(prefix="lrq-", dir=_MEMORY if is_roomy else None, ignore_cleanup_errors=True)


def _new_file(folder: Path, site_id: str) -> Path:
    """Return the file of a site with empty tables: one script is quicker than all migrations."""
    path = folder.absolute() / f"{site_id}.db"
    if not path.exists():
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.executescript(_tables())
    return path


@cache
def _tables() -> str:
    return migrations.ddl("sqlite")
