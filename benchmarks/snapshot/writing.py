"""The warm write of a snapshot by Spark, against one COPY of the same rows.

lrq packs many rows into one block, compressed where that helps. The COPY writes each row uncompressed into the table
`bare`, whose primary key would suit a reader of the rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from sqlalchemy import BigInteger, Column, Engine, Integer, LargeBinary, MetaData, Table, Text, select, text

import queues
from benchmarks.snapshot.postgres import Server, empty, settle
from benchmarks.snapshot.waiting import until
from lr_client.snapshot.requests import SnapshotContext, SnapshotTransmitter, request_snapshot_sync
from lr_client.spark import SparkSnapshotProvider
from queues import send_snapshot
from queues.blocks import decode_snapshot
from queues.database import dialects
from queues.database.tables.snapshots import snapshot_blocks
from queues.database.transactions import reading, writing
from queues.send_snapshot import SnapshotState
from queues.wire.replication_pb2 import Block

CLIENT, DESTINATION = "bench", "tokyo"
_TASKS = 4
_STORED = snapshot_blocks.name
_PIECE = 1024 * 1024
_WORDS = "a line of an ordinary rule, "
_BARE = Table(
    "bare",
    MetaData(),
    Column("sync_id", Text, primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False),
    Column("ord", BigInteger, primary_key=True, autoincrement=False),
    Column("item_key", Text),
    Column("payload", LargeBinary, nullable=False),
)


class Timed(SparkSnapshotProvider):
    """Measures the seconds of Spark's last snapshot, its publication included."""

    seconds = 0.0

    def provide_full_state_data(self, context: SnapshotContext) -> None:
        """Build the snapshot and record its duration in `seconds`."""
        began = perf_counter()
        super().provide_full_state_data(context)
        self.seconds = perf_counter() - began


class Writing:
    """The database of one site on *server*; each round writes a snapshot, and the same bytes by COPY."""

    def __init__(self, server: Server, spark: Any, folder: Path) -> None:  # noqa: ANN401 - a SparkSession
        self._engine = engine = server.create("writing")
        queues.initialize(engine, site_id="paris")
        self._file = folder / "rows.copy"
        self._rows = self._size = 0
        self._provider = Timed(spark, self._build)
        with engine.begin() as connection:
            _BARE.create(connection)
            connection.execute(text("ALTER TABLE bare ALTER COLUMN payload SET STORAGE EXTERNAL"))

    def by_spark(self, rows: int, size: int) -> float:
        """Return the seconds of one snapshot, which stays in the database."""
        self._rows, self._size = rows, size
        empty(self._engine, _STORED, "bare")
        settle(self._engine)
        with self.transmitting():
            with self._engine.begin() as connection:
                sync_id = request_snapshot_sync(connection, CLIENT, DESTINATION)
            until(lambda: _is_ready(self._engine, sync_id))
        return self._provider.seconds

    def by_copy(self) -> float:
        """Return the seconds of one COPY of the rows of `by_spark` from a file, with the commit."""
        empty(self._engine, "bare")
        _unpack(self._engine)
        with self._engine.connect() as connection, self._file.open("wb") as file:
            cursor = connection.connection.cursor()
            with cursor.copy("COPY bare TO STDOUT (FORMAT BINARY)") as copy:
                for piece in copy:
                    file.write(piece)
        empty(self._engine, "bare")
        settle(self._engine)
        began = perf_counter()
        with self._engine.connect() as connection, self._file.open("rb") as file:
            with connection.connection.cursor().copy("COPY bare FROM STDIN (FORMAT BINARY)") as copy:
                while piece := file.read(_PIECE):
                    copy.write(piece)
            connection.commit()
        return perf_counter() - began

    @contextmanager
    def transmitting(self) -> Iterator[None]:
        """Serve snapshot requests during the block."""
        with SnapshotTransmitter(self._engine, CLIENT, self._provider):
            yield

    def _build(self, spark: Any, _context: object) -> Any:  # noqa: ANN401 - Spark's
        # A quarter of each row is unique, and cheap to compute: the benchmark measures the writing.
        hashes = "sha2(cast(id as string), 512), sha2(cast(-id as string), 512)"
        words = (_WORDS * (self._size // len(_WORDS) + 1))[: self._size - 16 - 2 * 128]
        body = f"concat(lpad(id, 16, '0'), {hashes}, '{words}')"
        columns = (f"cast({body} as binary) as payload", "cast(id as string) as item_key")
        return spark.range(0, self._rows, 1, _TASKS).selectExpr(*columns)


def _unpack(engine: Engine) -> None:
    """Insert the rows of all stored blocks into `bare`."""
    stored = select(snapshot_blocks).execution_options(yield_per=16)
    with reading(engine) as connection, writing(engine) as filling:
        for found in connection.execute(stored):
            payloads, item_keys = decode_snapshot(Block.FromString(found.block), found.plain_size)
            columns = {
                "sync_id": [found.sync_id] * found.row_count,
                "part": [found.part] * found.row_count,
                "attempt": [found.attempt] * found.row_count,
                "ord": range(found.last_ord - found.row_count + 1, found.last_ord + 1),
                "item_key": item_keys,
                "payload": payloads,
            }
            dialects.of(filling).bulk_insert_columns(filling, _BARE, columns)


def _is_ready(engine: Engine, sync_id: str) -> bool:
    with reading(engine) as connection:
        found = send_snapshot.find(connection, sync_id)
    if found is not None and found.error:
        raise RuntimeError(found.error)
    return found is not None and found.state == SnapshotState.READY
