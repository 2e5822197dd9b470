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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from sqlalchemy import Connection, Engine, NullPool, create_engine, make_url

import queues
from lr_client.objects import require_plain
from lr_client.spark.receive.offsets import SNAPSHOT_START
from lr_client.spark.receive.positions import NOWHERE, StreamName, StreamPlace, load, place_of, positions, save
from lr_client.subscriber.listener_session import require_done
from lr_client.subscriber.transaction_guard import SAVEPOINT, EndedError, guarded
from queues.database import dialects
from queues.database.engine_check import require_engine
from queues.database.schemas import schema_of
from queues.database.sqlite_locks import BUSY_TIMEOUT
from queues.database.urls import is_sqlite
from queues.errors import ListenerError, NeedsFullSyncError, UsageError
from queues.receive.consumer_marks import IN_LOG, IN_SNAPSHOT
from queues.words import describe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Writes entries in the transaction of the batch: rows of `lrq_receive`, of one source and kind, in order.
Apply: TypeAlias = Callable[[Connection, Sequence[Any]], object]
#: Called in the transaction of the batch, with the source whose snapshot begins or completes.
OnSnapshot: TypeAlias = Callable[[Connection, str], object]

#: Limits of one call of `apply`; a larger entry comes alone.
_CHUNK_ROWS: Final = 1_000
_CHUNK_BYTES: Final = 4 * 1024 * 1024
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
    calls = _Calls(apply, on_snapshot_start, on_snapshot_complete)
    for role, function in zip(("apply", "on_snapshot_start", "on_snapshot_complete"), calls, strict=True):
        require_plain(function, role)
    return _Once(name, database, calls)


class _Calls(NamedTuple):
    apply: Apply
    on_start: OnSnapshot | None
    on_complete: OnSnapshot | None


class _Once:
    """Applies micro-batches, one transaction each."""

    def __init__(self, name: str, database: Engine | str, calls: _Calls) -> None:
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
            batch = _Batch(connection, self._calls, places)
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


# --- a batch ----------------------------------------------------------------------------------------------------


class _Batch:
    """One micro-batch in its transaction; `places` holds the place that each stream has reached."""

    def __init__(self, connection: Connection, calls: _Calls, before: dict[StreamName, StreamPlace]) -> None:
        self._connection = connection
        self._calls = calls
        self._before = before
        self._latest: dict[StreamName, StreamPlace] = {}
        # The applied place and the last repeated row of another branch, until one of the applied branch follows.
        self._doubts: dict[StreamName, tuple[StreamPlace, StreamPlace]] = {}
        self._chunk: list[Any] = []
        self._chunk_of: tuple[StreamName, str] | None = None
        self._chunk_bytes = 0
        self.places: dict[StreamName, StreamPlace] = {}

    def take(self, row: Any) -> None:  # noqa: ANN401 - a row of Spark's
        """Apply *row* unless an earlier batch applied it; raise `UsageError` for a row out of order."""
        stream, to = StreamName(row.client, row.source), place_of(row)
        latest = self._latest.get(stream, NOWHERE)
        if latest.sync_id == to.sync_id and to.order <= latest.order:
            raise UsageError(f"entries of {stream.source} came out of order: leave the rows in the order of the stream")
        self._latest[stream] = to
        place = self.places.get(stream) or self._before.get(stream, NOWHERE)
        if to.sync_id == place.sync_id and to.order <= place.order:
            self._compare(stream, place, to)
            return
        self._require_no_doubt(stream)
        self._announce(stream, place, to, row)
        if row.kind in (IN_SNAPSHOT, IN_LOG):
            self._add((stream, row.kind), row)
        self.places[stream] = to

    def finish(self) -> None:
        """Apply the last entries; raise `NeedsFullSyncError` if the source has lost entries that are applied here."""
        for stream in self._doubts:
            self._require_no_doubt(stream)
        self.flush()

    def flush(self) -> None:
        """Apply the collected entries."""
        if self._chunk:
            require_done(self._calls.apply(self._connection, self._chunk), "apply")
        self._chunk, self._chunk_bytes = [], 0

    def _add(self, of: tuple[StreamName, str], row: Any) -> None:  # noqa: ANN401 - a row of Spark's
        if of != self._chunk_of or len(self._chunk) >= _CHUNK_ROWS or self._chunk_bytes >= _CHUNK_BYTES:
            self.flush()
        self._chunk_of = of
        self._chunk.append(row)
        self._chunk_bytes += sum(len(value) for value in row if isinstance(value, bytes | bytearray | str))

    def _announce(self, stream: StreamName, place: StreamPlace, to: StreamPlace, row: Any) -> None:  # noqa: ANN401
        """Call the callbacks of a snapshot that begins or completes between *place* and *to*."""
        newer = to.sync_id != place.sync_id
        # A stream may begin after another subscriber, in the middle of a snapshot that this stream never saw begin.
        is_first = row.kind == SNAPSHOT_START or (row.kind == IN_SNAPSHOT and row.sequence == 1)
        begins = newer and (place.sync_id is not None or is_first)
        if begins:
            self._call(self._calls.on_start, stream)
        if to.phase == IN_LOG and (begins or (not newer and place.phase == IN_SNAPSHOT)):
            self._call(self._calls.on_complete, stream)

    def _compare(self, stream: StreamName, place: StreamPlace, to: StreamPlace) -> None:
        """Compare the branch of a repeated row with that of *place*; markers have no branch.

        After a failover of the source, the rows of earlier branches come first. A row of the applied branch has the
        same history as the applied one.
        """
        if to.phase == IN_LOG and to.branch:
            if to.branch == place.branch:
                self._doubts.pop(stream, None)
            else:
                self._doubts[stream] = place, to

    def _require_no_doubt(self, stream: StreamName) -> None:
        if stream in self._doubts:
            place, to = self._doubts[stream]
            raise NeedsFullSyncError(
                f"{stream.source} had lost entries that are applied here: {place.branch}@{place.sequence} was reached, "
                f"now {to.branch}@{to.sequence} comes. Request a snapshot from {stream.source}, then start again"
            )

    def _call(self, callback: OnSnapshot | None, stream: StreamName) -> None:
        if callback is not None:
            self.flush()
            require_done(callback(self._connection, stream.source), "a callback of a snapshot")
