"""A stream of `lrq_receive` into the tables of a database, each entry exactly once.

    def apply(connection: Connection, entries: Sequence[Row]) -> None:
        connection.execute(insert(prices), [json.loads(entry.payload) for entry in entries])

    def forget(connection: Connection, source: str) -> None:
        connection.execute(delete(prices).where(prices.c.site == source))

    stream = spark.readStream.format("lrq_receive").options(url=..., client="policy", snapshotMarkers="true").load()
    once = exactly_once("prices", "postgresql+psycopg://...", apply, on_snapshot_start=forget)
    stream.writeStream.foreachBatch(once).option("checkpointLocation", ...).start()

A batch is one transaction, in which the place that it reaches is written with the rows. What Spark brings again, because
it was killed before its checkpoint knew, is at or below that place and is left out. So it does not matter which
checkpoint the stream begins with, nor whether it has any.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from sqlalchemy import BigInteger, Column, Connection, Engine, MetaData, Table, Text, create_engine, insert, select, update

from lr_client.spark_offsets import SNAPSHOT_COMPLETE, SNAPSHOT_START
from queues.clock import now_us
from queues.consuming import IN_LOG, IN_SNAPSHOT
from queues.errors import NeedsFullSyncError, StoreUnavailableError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Writes entries (rows of `lrq_receive`, all of one source and kind, in order) in the transaction of the batch.
Apply: TypeAlias = Callable[[Connection, Sequence[Any]], None]
#: Told of the source whose snapshot begins or is complete, in the transaction of the batch.
OnSnapshot: TypeAlias = Callable[[Connection, str], None]

#: How many entries `apply` is given at most at a time.
CHUNK: Final = 1_000

#: Where each stream stands, in the database that it is written into.
positions: Final = Table(
    "lrq_stream_positions",
    MetaData(),
    Column("name", Text, primary_key=True),
    Column("client", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("sync_id", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("entries_total", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
)


class _Stream(NamedTuple):
    """What one source sends for one client."""

    client: str
    source: str


@dataclass(frozen=True, slots=True)
class _Place:
    """What was applied of one stream: a snapshot's entries (`phase`) or the log's up to `sequence`."""

    sync_id: str | None = None
    phase: str = IN_LOG
    branch: str = ""
    sequence: int = 0
    entries_total: int = 0


def exactly_once(
    name: str,
    database: Engine | str,
    apply: Apply,
    *,
    on_snapshot_start: OnSnapshot | None = None,
    on_snapshot_complete: OnSnapshot | None = None,
) -> Callable[["DataFrame", int], None]:
    """Return a function for `foreachBatch` that has *apply* write the entries into *database*, each once.

    *name* tells the streams apart that write into one database. `on_snapshot_start(connection, source)` has to forget
    what came from that source before. With `snapshotMarkers`, both callbacks come with the snapshot; without, they come
    with the first entry that is in it, or after it.

    Columns of `lrq_receive` other than `payload` and `item_key` must be left as they are, and the rows in their order.
    """
    return _Once(name, database, apply, on_snapshot_start, on_snapshot_complete)
