"""Apply a stream of `lrq_receive` to the tables of a database, each entry exactly once.

    def apply(connection: Connection, entries: Sequence[Row]) -> None:
        connection.execute(insert(prices), [json.loads(entry.payload) for entry in entries])

    def forget(connection: Connection, source: str) -> None:
        connection.execute(delete(prices).where(prices.c.site == source))

    stream = spark.readStream.format("lrq_receive").options(url=..., client="policy", snapshotMarkers="true").load()
    once = exactly_once("prices", "postgresql+psycopg://...", apply, on_snapshot_start=forget)
    stream.writeStream.foreachBatch(once).option("checkpointLocation", ...).start()

A micro-batch is one transaction, which also stores the stream's place in each source. After a crash Spark repeats
entries, and entries at or below the stored place are skipped. The comparison uses the numbers of entries, not of
batches, so a stream with a new checkpoint is exactly-once too.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Engine, NullPool, create_engine, make_url

import queues
from lr_client.objects import require_plain
from lr_client.spark.receive.exact_batch import Apply, BatchCalls, ExactBatch, OnSnapshot
from lr_client.spark.receive.positions import load, positions, save
from lr_client.subscriber.transaction_guard import SAVEPOINT, EndedError, guarded
from queues.database import dialects
from queues.database.engine_check import require_engine
from queues.database.schemas import schema_of
from queues.database.sqlite_locks import BUSY_TIMEOUT
from queues.database.urls import is_sqlite
from queues.errors import ListenerError, UsageError
from queues.words import describe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NEEDED: Final = {"client", "source", "kind", "sync_id", "branch", "sequence"}


def exactly_once(
    name: str,
    database: Engine | str,
    apply: Apply,
    *,
    on_snapshot_start: OnSnapshot | None = None,
    on_snapshot_complete: OnSnapshot | None = None,
) -> Callable[["DataFrame", int], None]:
    """Return a function for `foreachBatch` that lets *apply* write each entry into *database* exactly once.

    *name* identifies the stream among all streams that write into one database. `on_snapshot_start(connection, source)`
    must delete everything applied from that source before. With the option `snapshotMarkers`, both callbacks are called
    for every snapshot, even an empty one. Without the option, the first entry after the change causes the call.

    The rows must be in the order of the stream. The columns `client`, `source`, `kind`, `sync_id`, `branch` and
    `sequence` must be unchanged. An error in a batch, also of *apply*, undoes the whole batch and ends the query.

    Raises:
        UsageError: *name* is empty, *database* is neither a URL nor an engine, a function is `async def`, a column is
            missing, or the rows are out of order.
        ListenerError: *apply* or a callback has ended the transaction (detected on SQLite and PostgreSQL), or raised no
            `Exception` (for example `asyncio.CancelledError`).
        NeedsFullSyncError: the source has lost entries that are applied here.
    """
    if not name:
        raise UsageError("give the stream a name: the place in each source is stored under that name")
    if not isinstance(database, str):
        require_engine(database, "exactly_once", of_any_database=True)
    calls = BatchCalls(apply, on_snapshot_start, on_snapshot_complete)
    for role, function in zip(("apply", "on_snapshot_start", "on_snapshot_complete"), calls, strict=True):
        require_plain(function, role)
    return _Once(name, database, calls)


class _Once:
    """Applies micro-batches, one transaction each."""

    def __init__(self, name: str, database: Engine | str, calls: BatchCalls) -> None:
        self._name = name
        self._database = database
        self._calls = calls
        self._engine: Engine | None = None

    def __call__(self, frame: "DataFrame", _batch_id: int) -> None:
        missing = _NEEDED - set(frame.columns)
        if missing:
            raise UsageError(f"exactly_once needs the columns {sorted(missing)} of lrq_receive: do not leave them out")
        # Begin the transaction only when the first row is there: SQLite has one writer, and others would wait.
        rows = frame.toLocalIterator(prefetchPartitions=True)
        first = list(islice(rows, 1))
        if first:
            with _failing_as_exception():
                self._take(chain(first, rows))

    def _take(self, rows: Iterator[Any]) -> None:
        with self._open().begin() as connection:
            places = load(connection, self._name)
            batch = ExactBatch(connection, self._calls, places)
            with _unended(connection):
                for row in rows:
                    batch.take(row)
                batch.finish()
            save(connection, self._name, places, batch.places)

    def _open(self) -> Engine:
        if self._engine is None:
            self._engine = _engine(self._database) if isinstance(self._database, str) else self._database
            positions.metadata.create_all(self._engine)
        return self._engine


@contextmanager
def _failing_as_exception() -> Iterator[None]:
    """Turn an error that is no `Exception` into `ListenerError`: Spark reports only the latter and would wait for ever.

    In the main thread all errors pass, because Ctrl-C is for the application.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException as raised:
        if threading.current_thread() is threading.main_thread():
            raise
        raise ListenerError(
            f"apply or a callback raised {describe(raised)}, which is no Exception: the batch comes again"
        ) from raised


@contextmanager
def _unended(connection: Connection) -> Iterator[None]:
    """Raise `ListenerError` when the block has ended the transaction, which must have written before."""
    if dialects.find(connection) is None:
        yield
        return
    connection.execute(SAVEPOINT)
    try:
        with guarded(connection):
            yield
    except EndedError as error:
        raise ListenerError(
            "apply or a callback ended the transaction of its batch (committed changes stay, the batch comes again): "
            "leave COMMIT and ROLLBACK to exactly_once, use connection.begin_nested() for parts"
        ) from error.__cause__


def _engine(url: str) -> Engine:
    if schema_of(make_url(url)):
        return queues.create_engine(url, poolclass=NullPool)
    patience = {"timeout": BUSY_TIMEOUT} if is_sqlite(make_url(url)) else {}
    return create_engine(url, poolclass=NullPool, connect_args=patience)
