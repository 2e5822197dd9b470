"""Read the application's tables at one state of SQLite: a consistent copy of the file, in ranges of rowids."""

import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    NullPool,
    Table,
    TableClause,
    TextClause,
    create_engine,
    exc,
    func,
    literal_column,
    select,
    text,
)

from queues.database import tables
from queues.database.cuts_port import PinnedState, StoredTable
from queues.errors import ConfigurationError, StoreUnavailableError
from queues.positions import Visibility

if sys.platform != "win32":
    import fcntl

_PREFIX = "lrq-cut-"
_HELD = "held"
#: Pages copied between two calls of `check`.
_STEP = 1024


_ROW_ID: Final[ColumnElement[int]] = literal_column("rowid")


class SqliteCuts:
    """See `queues.database.cuts_port.Cuts`."""

    @contextmanager
    def pin_cut(self, engine: Engine, *, folder: Path | None, check: Callable[[], None]) -> Iterator[PinnedState]:
        """Copy the database; the copy's path is the name of the state."""
        with _consistent_copy(engine, folder=folder, check=check) as path:
            with self.read_at(engine, str(path)) as connection:
                last_id = connection.execute(select(tables.log.log_head.c.last_id)).scalar_one()
            yield PinnedState(str(path), Visibility(high=last_id))

    @contextmanager
    def read_at(self, engine: Engine, name: str) -> Iterator[Connection]:  # noqa: ARG002 - the copy has its own
        """Open the copy."""
        path = Path(name)
        if not path.exists():
            raise LookupError(name)
        # With `immutable` readers take no locks: no process writes to the copy.
        address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        copy = create_engine("sqlite://", creator=lambda: sqlite3.connect(address, uri=True), poolclass=NullPool)
        with copy.connect() as connection:
            yield connection

    def require_unchanged(self, connection: Connection) -> None:
        """Do nothing: a copy does not change."""

    def hold(self, connection: Connection, table: str) -> None:
        """Do nothing: a copy does not change."""

    def estimate_rows(self, connection: Connection, table: TableClause) -> int:
        """Return the last rowid, found by one look-up; rowids are dense in most tables."""
        newest = select(_ROW_ID).select_from(table).order_by(_ROW_ID.desc()).limit(1)
        try:
            last = connection.execute(newest).scalar()
        except exc.OperationalError:  # a view, or WITHOUT ROWID
            return 0
        return max(0, last) if isinstance(last, int) else 0  # a column may have the name

    def stored_tables(self, connection: Connection, table: Table) -> list[StoredTable]:
        """Return the table with its range of rowids; a view and a table WITHOUT ROWID have none."""
        return [StoredTable(table.name, table.schema, _extent(connection, table))]

    def between(self, low: int | None, high: int | None) -> list[TextClause]:
        """Compare the rowid with the bounds."""
        bounds = (("rowid >= :low", "low", low), ("rowid < :high", "high", high))
        return [text(sql).bindparams(**{name: row_id}) for sql, name, row_id in bounds if row_id is not None]


def _extent(connection: Connection, table: Table) -> tuple[int, int] | None:
    if "rowid" in (name.lower() for name in table.c.keys()):  # noqa: SIM118 - its elements are columns
        return None
    try:
        low = connection.execute(select(func.min(_ROW_ID)).select_from(table)).scalar()
        high = connection.execute(select(func.max(_ROW_ID)).select_from(table)).scalar()
    except exc.OperationalError:
        return None
    return None if low is None or high is None else (low, high + 1)


@contextmanager
def _consistent_copy(engine: Engine, *, folder: Path | None, check: Callable[[], None]) -> Iterator[Path]:
    """Copy the database into a new folder under *folder* (None: the system's temporary folder).

    Writers continue during the copy (WAL). *check* is called now and then, and may raise to cancel. The copy is removed
    at the end of the block. Copies left by killed processes are removed first. Raises `StoreUnavailableError` if the
    copy fails.
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
        # The open read transaction keeps all steps of the copy at one state, while writers continue.
        # With autocommit=False, which Python 3.12 has, the driver has begun one by itself.
        if not source.in_transaction:
            source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        source.backup(target, pages=_STEP, progress=lambda _status, _remaining, _total: check())


@contextmanager
def _held(own: Path) -> Iterator[None]:
    """Show other processes that the folder is in use, until this process ends in any way."""
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
