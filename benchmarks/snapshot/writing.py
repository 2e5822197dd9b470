"""The warm write of a snapshot by Spark, against one COPY of the same bytes into an identical table."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from sqlalchemy import Engine, text

import queues
from benchmarks.snapshot.postgres import Server, empty, settle
from benchmarks.snapshot.waiting import until
from lr_client.snapshots import SnapshotContext, SnapshotTransmitter, request_snapshot_sync
from lr_client.spark import SparkSnapshotProvider
from queues import snapshots
from queues.snapshots import SnapshotState
from queues.tables import snapshot_entries
from queues.transactions import reading

CLIENT, DESTINATION = "bench", "tokyo"
_TASKS = 4
_STORED = snapshot_entries.name
_PIECE = 1024 * 1024


class Timed(SparkSnapshotProvider):
    """Keeps how long Spark took to build the last snapshot, its publication included."""

    seconds = 0.0

    def provide_full_state_data(self, context: SnapshotContext) -> None:
        """See `SnapshotProvider`."""
        began = perf_counter()
        super().provide_full_state_data(context)
        self.seconds = perf_counter() - began


class Writing:
    """One site's database, made on *server*; every round is a snapshot there, and its bytes again."""

    def __init__(self, server: Server, spark: Any, folder: Path) -> None:  # noqa: ANN401 - a SparkSession
        self._engine = engine = server.create("writing")
        queues.initialize(engine, site_id="paris")
        self._file = folder / "rows.copy"
        self._rows = self._size = 0
        self._provider = Timed(spark, self._build)
        with engine.begin() as connection:
            connection.execute(text(f"CREATE TABLE bare (LIKE {_STORED} INCLUDING ALL)"))

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
        """Return the seconds of one COPY of what `by_spark` has left, from a file, the commit included."""
        empty(self._engine, "bare")
        with self._engine.connect() as connection, self._file.open("wb") as file:
            cursor = connection.connection.cursor()
            with cursor.copy(f"COPY {_STORED} TO STDOUT (FORMAT BINARY)") as copy:
                for piece in copy:
                    file.write(piece)
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
        """Serve requests."""
        with SnapshotTransmitter(self._engine, CLIENT, self._provider):
            yield

    def _build(self, spark: Any, _context: object) -> Any:  # noqa: ANN401 - Spark's
        # Cheap to make: what counts is how fast rows are written.
        body = f"concat(lpad(id, 16, '0'), repeat('x', {self._size - 16}))"
        columns = (f"cast({body} as binary) as payload", "cast(id as string) as item_key")
        return spark.range(0, self._rows, 1, _TASKS).selectExpr(*columns)


def _is_ready(engine: Engine, sync_id: str) -> bool:
    with reading(engine) as connection:
        found = snapshots.find(connection, sync_id)
    if found is not None and found.error:
        raise RuntimeError(found.error)
    return found is not None and found.state == SnapshotState.READY
