"""A consistent copy of a SQLite database, for as long as a snapshot is read."""

import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Engine

from queues.errors import ConfigurationError, StoreUnavailableError

if sys.platform != "win32":
    import fcntl

_PREFIX = "lrq-cut-"
_HELD = "held"
#: Pages copied between two looks at whether the copy is still wanted.
_STEP = 1024


@contextmanager
def consistent_copy(engine: Engine, *, folder: Path | None, check: Callable[[], None]) -> Iterator[Path]:
    """Copy the database into a folder of its own under *folder* (the system's for temporary files by default).

    Writers go on meanwhile (WAL). *check* is called now and then and may raise to give up. The copy is removed at
    the end, and those that killed processes left are too. Raises `StoreUnavailableError` when it cannot be made.
    """
    parent = Path(tempfile.gettempdir()) if folder is None else folder
    _remove_abandoned(parent)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent, ignore_cleanup_errors=True) as name:
        own = Path(name)
        with _held(own):
            path = own / "cut.db"
            try:
                _copy(engine, path, check)
            except sqlite3.Error as error:
                raise StoreUnavailableError(f"the database could not be copied to {path}: {error}") from error
            yield path


def _copy(engine: Engine, path: Path, check: Callable[[], None]) -> None:
    pooled = engine.raw_connection()
    source = pooled.driver_connection
    pooled.detach()
    if not isinstance(source, sqlite3.Connection):
        pooled.close()
        raise ConfigurationError(f"the SQLite driver {engine.dialect.driver} cannot copy a database: use pysqlite")
    with closing(source), closing(sqlite3.connect(path)) as target:
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("PRAGMA synchronous = OFF")
        # An open read transaction keeps all steps of the copy at one state of a database that is written to.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        source.backup(target, pages=_STEP, progress=lambda _status, _remaining, _total: check())


@contextmanager
def _held(own: Path) -> Iterator[None]:
    """Show other processes that the folder is in use, until this process ends by whatever means."""
    if sys.platform == "win32":
        yield
        return
    with (own / "new").open("w") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        (own / "new").rename(own / _HELD)
        yield


def _remove_abandoned(parent: Path) -> None:
    if sys.platform == "win32":
        return
    for held in parent.glob(f"{_PREFIX}*/{_HELD}"):
        try:
            with held.open("r+") as mark:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(held.parent, ignore_errors=True)
        except OSError:  # in use, another user's, or just removed
            continue
