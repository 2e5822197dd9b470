"""A stream of `lrq_receive` into the tables of a database, each entry exactly once.

    def apply(connection: Connection, entries: Sequence[Row]) -> None:
        connection.execute(insert(prices), [json.loads(entry.payload) for entry in entries])

    def forget(connection: Connection, source: str) -> None:
        connection.execute(delete(prices).where(prices.c.site == source))

    stream = spark.readStream.format("lrq_receive").options(url=..., client="policy", snapshotMarkers="true").load()
    once = exactly_once("prices", "postgresql+psycopg://...", apply, on_snapshot_start=forget)
    stream.writeStream.foreachBatch(once).option("checkpointLocation", ...).start()

A micro-batch is one transaction, in which the places that it reaches are written with the rows. What Spark brings
again, because it was killed before its checkpoint knew, is at or below those places and is left out: by the numbers of
the entries, not of the batches, so that a stream with a new checkpoint goes on as exactly.
"""

from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from sqlalchemy import Connection, Engine, NullPool, create_engine, make_url

from lr_client.spark.offsets import SNAPSHOT_START
from lr_client.spark.positions import NOWHERE, Place, Stream, load, place_of, positions, save
from queues.engine import BUSY_TIMEOUT
from queues.errors import NeedsFullSyncError, UsageError
from queues.receive.consuming import IN_LOG, IN_SNAPSHOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Writes entries (rows of `lrq_receive`, of one source and kind, in order) within the transaction of the batch.
Apply: TypeAlias = Callable[[Connection, Sequence[Any]], None]
#: Is told of the source whose snapshot begins or is complete, within the transaction of the batch.
OnSnapshot: TypeAlias = Callable[[Connection, str], None]

#: Bounds of what `apply` is given at a time; a larger entry comes alone.
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
    """Return a function for `foreachBatch` that has *apply* write the entries into *database*, each once.

    *name* tells apart the streams that write into one database. `on_snapshot_start(connection, source)` has to forget
    what came from that source before. With the option `snapshotMarkers` both callbacks come with the snapshot, also
    with an empty one; without it, they come with the first entry that shows it.

    The rows must be in the order of the stream, with all columns but `payload`, `item_key` and the times as they are
    (`UsageError` otherwise). What *apply* raises undoes the whole batch and ends the query.
    """
    if not name:
        raise UsageError("give the stream a name: its place is kept under it")
    return _Once(name, database, _Calls(apply, on_snapshot_start, on_snapshot_complete))


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
        # Only when Spark has the first rows: a transaction keeps others of SQLite's one writer waiting.
        rows = frame.toLocalIterator(prefetchPartitions=True)
        first = list(islice(rows, 1))
        if not first:
            return
        with self._open().begin() as connection:
            places = load(connection, self._name)
            batch = _Batch(connection, self._calls, places)
            for row in chain(first, rows):
                batch.take(row)
            batch.flush()
            save(connection, self._name, places, batch.places)

    def _open(self) -> Engine:
        if self._engine is None:
            self._engine = _engine(self._database) if isinstance(self._database, str) else self._database
            positions.metadata.create_all(self._engine)
        return self._engine


def _engine(url: str) -> Engine:
    patience = {"timeout": BUSY_TIMEOUT} if make_url(url).get_backend_name() == "sqlite" else {}
    return create_engine(url, poolclass=NullPool, connect_args=patience)


# --- a batch ----------------------------------------------------------------------------------------------------


class _Batch:
    """One micro-batch in its transaction; `places` are those that it has reached."""

    def __init__(self, connection: Connection, calls: _Calls, before: dict[Stream, Place]) -> None:
        self._connection = connection
        self._calls = calls
        self._before = before
        self._latest: dict[Stream, Place] = {}
        self._chunk: list[Any] = []
        self._chunk_of: tuple[Stream, str] | None = None
        self._chunk_bytes = 0
        self.places: dict[Stream, Place] = {}

    def take(self, row: Any) -> None:  # noqa: ANN401 - a row of Spark's
        """Apply a row, unless an earlier batch did."""
        stream, to = Stream(row.client, row.source), place_of(row)
        latest = self._latest.get(stream, NOWHERE)
        if latest.sync_id == to.sync_id and to.order <= latest.order:
            raise UsageError(f"entries of {stream.source} came out of order: leave the rows in the order of the stream")
        self._latest[stream] = to
        place = self.places.get(stream) or self._before.get(stream, NOWHERE)
        if to.sync_id == place.sync_id and to.order <= place.order:
            _require_same(stream, place, to)
            return
        self._announce(stream, place, to, row)
        if row.kind in (IN_SNAPSHOT, IN_LOG):
            self._add((stream, row.kind), row)
        self.places[stream] = to

    def flush(self) -> None:
        """Have what is left applied."""
        if self._chunk:
            self._calls.apply(self._connection, self._chunk)
        self._chunk, self._chunk_bytes = [], 0

    def _add(self, of: tuple[Stream, str], row: Any) -> None:  # noqa: ANN401 - a row of Spark's
        if of != self._chunk_of or len(self._chunk) >= _CHUNK_ROWS or self._chunk_bytes >= _CHUNK_BYTES:
            self.flush()
        self._chunk_of = of
        self._chunk.append(row)
        self._chunk_bytes += sum(len(value) for value in row if isinstance(value, bytes | bytearray | str))

    def _announce(self, stream: Stream, place: Place, to: Place, row: Any) -> None:  # noqa: ANN401
        """Tell of a snapshot that begins, or is complete, between two places."""
        newer = to.sync_id != place.sync_id
        # A stream may begin where another subscriber left off, with entries of a snapshot that is not its own.
        is_first = row.kind == SNAPSHOT_START or (row.kind == IN_SNAPSHOT and row.sequence == 1)
        begins = newer and (place.sync_id is not None or is_first)
        if begins:
            self._call(self._calls.on_start, stream)
        if to.phase == IN_LOG and (begins or (not newer and place.phase == IN_SNAPSHOT)):
            self._call(self._calls.on_complete, stream)

    def _call(self, callback: OnSnapshot | None, stream: Stream) -> None:
        if callback is not None:
            self.flush()
            callback(self._connection, stream.source)


def _require_same(stream: Stream, place: Place, to: Place) -> None:
    """Make sure that what comes again is what was applied; a bracket of a snapshot has no branch."""
    if to.phase == IN_LOG and to.branch and to.branch != place.branch:
        raise NeedsFullSyncError(
            f"{stream.source} had lost entries that are applied here: {place.branch}@{place.sequence} was reached, now "
            f"comes {to.branch}@{to.sequence}. Request a snapshot from {stream.source}, then start again"
        )
