"""Write DataFrames and streams into the log: tasks stage rows, and the driver's commit moves them there.

See docs/spark-log.md.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from sqlalchemy import Engine

import queues
from lr_client.spark.log.write_options import LogWriteOptions
from lr_client.spark.log.written_rows import new_entries
from queues.database import migrations
from queues.database.transactions import reading
from queues.errors import StoreUnavailableError, UsageError
from queues.send_log.epochs import newest_sequence, store_epoch
from queues.send_log.staging import BLOCK_ROWS, Epoch, PartStaging, StagedPart, forget_abandoned, forget_parts

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

# Spark sets these properties for the tasks of a stream. The checkpoint keeps the query's id across restarts.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


@dataclass(frozen=True)
class TaskStaged(WriterCommitMessage):
    """The part that one task has staged, and the number of its partition."""

    partition: int
    part: StagedPart


class LogBatchWriter(DataSourceArrowWriter):
    """Writes one DataFrame: all rows or none."""

    def __init__(self, options: LogWriteOptions) -> None:
        """Name the job: Spark sends this object to its tasks and keeps it for the commit."""
        self._options = options
        if options.producer is None or options.sequence is None:
            self._epoch = Epoch(options.client, f"spark once {secrets.token_hex(8)}", 0)
        else:
            self._epoch = Epoch(options.client, f"spark job {options.producer}", options.sequence + 1)

    def write(self, iterator: "Iterator[pyarrow.RecordBatch]") -> TaskStaged:
        """Stage the rows of one task."""
        return _stage(self._options, self._epoch, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Move the rows of all tasks into the log; do nothing if this numbered batch is there already."""
        _commit(self._options, self._epoch, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the staged rows, except rows of killed tasks, which are removed later."""
        _abort(self._options, messages)


class LogStreamWriter(DataSourceStreamArrowWriter):
    """Writes the epochs of a stream, each exactly once. Spark creates one for the tasks, and one for each commit."""

    def __init__(self, options: LogWriteOptions) -> None:
        self._options = options

    def write(self, iterator: "Iterator[pyarrow.RecordBatch]") -> TaskStaged:
        """Stage the rows of one task."""
        task = TaskContext.get()
        query, batch = (None, None) if task is None else (task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH))
        if not query or not batch:
            raise UsageError("lrq_log writes streams in micro-batches: remove the trigger `continuous` or `realTime`")
        return _stage(self._options, self._epoch(query, int(batch)), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Move the rows of all tasks into the log; do nothing if this epoch is there already.

        Raises `UsageError` for an epoch before that: Spark repeats only the last one, so the checkpoint has gone back.
        """
        epochs = {message.part.epoch for message in _staged(messages)}
        if not epochs:
            return
        epoch = epochs.pop()
        if epochs or epoch.sequence != batchId + 1:
            raise UsageError(f"the tasks of batch {batchId} belong to several batches: use a checkpoint of its own")
        if not _commit(self._options, epoch, messages):
            self._require_repeated(epoch)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove the staged rows, except rows of killed tasks, which are removed later."""
        _abort(self._options, messages)

    def _require_repeated(self, epoch: Epoch) -> None:
        with _engine(self._options) as engine:
            newest = newest_sequence(engine, epoch)
        if epoch.sequence < newest:
            raise UsageError(
                f"the log has the batches of this stream up to {newest - 1}, and batch {epoch.sequence - 1} comes, "
                "perhaps with other rows: the checkpoint was restored, has lost its last batches, or has a second "
                "query. Begin with a new checkpoint"
            )

    def _epoch(self, query: str, batch: int) -> Epoch:
        return Epoch(self._options.client, f"spark query {query}", batch + 1)


def require_tables(options: LogWriteOptions) -> None:
    """Raise `SetupError` before any task begins if the database has no lrq tables of this version."""
    with _engine(options) as engine, reading(engine) as connection:
        migrations.require(connection)


def _stage(options: LogWriteOptions, epoch: Epoch, batches: "Iterator[pyarrow.RecordBatch]") -> TaskStaged:
    task = TaskContext.get()
    with _engine(options) as engine:
        staging = PartStaging(engine, epoch, block_rows=options.rows_per_transaction or BLOCK_ROWS)
        for entry in new_entries(batches, options):
            staging.add(entry)
        return TaskStaged(0 if task is None else task.partitionId(), staging.finish())


def _commit(options: LogWriteOptions, epoch: Epoch, messages: Sequence[WriterCommitMessage | None]) -> bool:
    """Store the epoch; return False if an earlier call has stored this epoch or a later one."""
    parts = [message.part for message in sorted(_staged(messages), key=lambda message: message.partition)]
    with _engine(options) as engine:
        is_new = store_epoch(engine, epoch, parts, rows_per_transaction=options.rows_per_transaction)
        with suppress(StoreUnavailableError):  # as in `store_epoch`: the rows are stored
            forget_abandoned(engine)
    return is_new


def _abort(options: LogWriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    with _engine(options) as engine:
        forget_parts(engine, [message.part.attempt for message in _staged(messages)])


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[TaskStaged]:
    return [message for message in messages if isinstance(message, TaskStaged)]


@contextmanager
def _engine(options: LogWriteOptions) -> Iterator[Engine]:
    engine = queues.create_engine(options.url, pool_size=1, max_overflow=0)
    try:
        yield engine
    finally:
        engine.dispose()
