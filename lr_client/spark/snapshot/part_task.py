"""Write the rows of one Spark task as one part of a snapshot, invisible until the driver names it."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from sqlalchemy import Connection, Engine, NullPool, QueuePool

import queues
from lr_client.spark.snapshot.mapping import mapped
from queues.database import dialects
from queues.entry_keys import MAX_KEY_LENGTH, checked_key
from queues.errors import SnapshotFailedError
from queues.send_snapshot import attempts as snapshot_attempts
from queues.send_snapshot.block_packer import WriteLimits
from queues.send_snapshot.states import Attempt, Part
from queues.send_snapshot.writer import PartWriter

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame

#: Rows that are converted to Python objects at a time.
_SLICE = 500
# For databases with concurrent writers: no writer waits for a batch, so fewer commits are better.
_LARGE_BATCHES = WriteLimits(batch_rows=8_000, batch_bytes=8 * 1024 * 1024)
#: The columns of a part as a row of a DataFrame.
_COLUMNS: Final = ("part", "attempt", "rows", "bytes", "checksum")
_SCHEMA: Final = ", ".join(f"{name} bigint" for name in _COLUMNS)


@dataclass(frozen=True, slots=True)
class PartTask:
    """Writes one part of the snapshot of *attempt* into the database at *url*.

    Each try of a task writes under a number of its own. Spark's result has exactly one try of each task. Rows of
    failed, repeated, killed and speculative tries are never visible, and are deleted later. `repr` omits the URL, which
    may contain a password.
    """

    url: str = field(repr=False)
    attempt: Attempt
    limits: WriteLimits

    def write(self, batches: "Iterator[pyarrow.RecordBatch]") -> Part:
        """Write the rows of this task; return the written part."""
        task = TaskContext.get()
        part = 0 if task is None else task.partitionId()

        def check(connection: Connection, _written: Part) -> None:
            snapshot_attempts.check_live(connection, self.attempt)

        with engine_at(self.url, pooled=True) as engine:
            writer = PartWriter(
                engine,
                self.attempt.sync_id,
                part=part,
                attempt=self.attempt.part_attempt(secrets.randbits(40)),
                limits=self.limits,
                in_batch=check,
            )
            for payloads, item_keys in _slices(batches):
                writer.add_many(payloads, item_keys)
            writer.finish()
        return writer.written

    def __call__(self, batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
        """Write the rows of this task; yield the written part as a row."""
        import pyarrow

        columns = [pyarrow.array([value], pyarrow.int64()) for value in astuple(self.write(batches))]
        yield pyarrow.RecordBatch.from_arrays(columns, list(_COLUMNS))


def write_parts(rows: "DataFrame", task: PartTask) -> list[Part]:
    """Write *rows* in Spark's tasks; return the part that each task has written.

    A data source would start three more Python processes for its plan and its commit. The processes take longer than
    the rows of a small snapshot.
    """
    return [Part(*row) for row in mapped(rows, task, _SCHEMA).collect()]


def usual_limits(engine: Engine) -> WriteLimits:
    """Return the limits that suit the database of *engine*."""
    return WriteLimits() if dialects.of(engine).one_writer else _LARGE_BATCHES


@contextmanager
def engine_at(url: str, *, pooled: bool = False) -> Iterator[Engine]:
    """Lend an engine for the database at *url*; its connections end with the block.

    A worker of Spark keeps the engine for its next tasks, and with it the compiled statements.
    """
    engine = _kept_engine(url, pooled=pooled)
    try:
        yield engine
    finally:
        engine.dispose()


@lru_cache(maxsize=8)
def _kept_engine(url: str, *, pooled: bool) -> Engine:
    return queues.create_engine(url, poolclass=QueuePool if pooled else NullPool)


def _slices(batches: "Iterator[pyarrow.RecordBatch]") -> Iterator[tuple[list[bytes], list[str | None]]]:
    for batch in batches:
        if batch.column("payload").null_count:
            raise SnapshotFailedError("a row's `payload` is NULL: leave such rows out, or make it empty")
        for start in range(0, batch.num_rows, _SLICE):
            rows = batch.slice(start, _SLICE)
            payloads = rows.column("payload").to_pylist()
            keyed = "item_key" in rows.schema.names
            yield payloads, _checked_keys(rows.column("item_key")) if keyed else [None] * len(payloads)


def _checked_keys(column: "pyarrow.StringArray") -> list[str | None]:
    """Return the keys of *column*; raise `InvalidKeyError` as `checked_key`, which would take longer for each key."""
    from pyarrow import compute

    keys: list[str | None] = column.to_pylist()
    sizes = compute.min_max(compute.utf8_length(column)).as_py()
    has_nul = compute.any(compute.match_substring(column, "\0")).as_py()
    if has_nul or sizes["min"] == 0 or (sizes["max"] or 0) > MAX_KEY_LENGTH:
        for key in keys:
            checked_key(key, "item_key")
    return keys
