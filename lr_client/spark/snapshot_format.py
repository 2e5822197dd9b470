"""Spark data source `lrq_snapshot`: writes a DataFrame as a snapshot, published by the driver, all of it or nothing.

    spark.dataSource.register(SnapshotFormat)
    df.write.format("lrq_snapshot").options(url=..., sync_id=...).mode("append").save()

Each task writes its rows into the queue under a number of its own; the driver's commit publishes exactly the tasks that
Spark names. What failed, retried, killed and speculative tasks wrote is never visible, and is collected later.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType
from sqlalchemy import Connection, Engine, NullPool, Pool, QueuePool

import queues
from queues import leases, snapshots
from queues.errors import SnapshotCancelledError, SnapshotFailedError
from queues.leases import Lease
from queues.snapshots import attempts as snapshot_attempts
from queues.snapshots.batch import WriteLimits
from queues.snapshots.states import Attempt, Part, transmitter_lease
from queues.snapshots.writer import PartWriter
from queues.transactions import reading, writing

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

#: Rows that are Python objects at a time.
_SLICE = 500
# Where no other writer has to wait for a batch, the fewer commits the better.
_LARGE_BATCHES = WriteLimits(batch_rows=8_000, batch_bytes=8 * 1024 * 1024)


def check_schema(schema: StructType) -> None:
    """Raise `SnapshotFailedError` unless there is a binary `payload` and, if there is an `item_key`, it is a string."""
    types = {field.name: field.dataType for field in schema.fields}
    if "payload" not in types:
        raise SnapshotFailedError(
            f"the DataFrame has no column `payload` among {sorted(types)}: add one of type binary"
        )
    for name, wanted in (("payload", BinaryType()), ("item_key", StringType())):
        if name in types and types[name] != wanted:
            raise SnapshotFailedError(
                f"the column `{name}` is of type {types[name].simpleString()}: make it {wanted.simpleString()}"
            )


@dataclass(frozen=True)
class PartWritten(WriterCommitMessage):
    """What one task has written."""

    part: Part


class SnapshotFormat(DataSource):
    """`format("lrq_snapshot")`; needs the options `url` and `sync_id` of a snapshot that is being built."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "lrq_snapshot"

    def writer(self, schema: StructType, overwrite: bool) -> "SnapshotWriter":  # noqa: ARG002 - Spark's
        """Return the writer of one snapshot attempt: the one under way, or the one that the option `build` names."""
        check_schema(schema)
        options = cast("Mapping[str, str]", self.options)
        for name in ("url", "sync_id"):
            if name not in options:
                raise SnapshotFailedError(f"format('lrq_snapshot') needs the option `{name}`")
        with _engine(options["url"]) as engine, reading(engine) as connection:
            if "build" in options:
                attempt = snapshot_attempts.by_build(connection, options["build"])
            else:
                attempt = snapshot_attempts.under_way(connection, options["sync_id"])
            limits = WriteLimits() if connection.dialect.name == "sqlite" else _LARGE_BATCHES
        if attempt is None:
            raise SnapshotCancelledError(f"snapshot {options['sync_id']} is not being built, or not in this attempt")
        limits = replace(
            limits,
            payload_bytes=int(options.get("max_payload_bytes", limits.payload_bytes)),
            block_rows=int(options.get("block_rows", limits.block_rows)),
        )
        lease = None
        if "generation" in options:
            lease = Lease(transmitter_lease(attempt.client), attempt.owner, int(options["generation"]))
        return SnapshotWriter(options["url"], attempt, lease, limits)


class SnapshotWriter(DataSourceArrowWriter):
    """Writes in tasks, publishes in the driver; both in processes of Spark's."""

    def __init__(self, url: str, attempt: Attempt, lease: Lease | None, limits: WriteLimits) -> None:
        self._url = url
        self._attempt = attempt
        self._lease = lease
        self._limits = limits

    def write(self, iterator: "Iterator[pyarrow.RecordBatch]") -> PartWritten:
        """Write the rows of one task."""
        task = TaskContext.get()
        part = 0 if task is None else task.partitionId()

        def check(connection: Connection, _written: Part) -> None:
            snapshot_attempts.check_live(connection, self._attempt)

        with _engine(self._url, QueuePool) as engine:
            writer = PartWriter(
                engine,
                self._attempt.sync_id,
                part=part,
                attempt=self._attempt.part_attempt(secrets.randbits(40)),
                limits=self._limits,
                in_batch=check,
            )
            for payloads, item_keys in _slices(iterator):
                writer.add_many(payloads, item_keys)
            writer.flush()
        return PartWritten(writer.written)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what the tasks of *messages* have written."""
        parts = [message.part for message in messages if isinstance(message, PartWritten)]
        with _engine(self._url) as engine, writing(engine) as connection:
            pinned = snapshots.of_build(connection, self._attempt.build)
            if pinned is None or not pinned.base.branch:
                raise SnapshotFailedError(f"snapshot {self._attempt.sync_id} has no base: start it by a transmitter")
            if self._lease is not None:
                leases.check(connection, self._lease)
            snapshot_attempts.publish(connection, self._attempt, base=pinned.base, parts=parts)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave what was written to be collected: nothing of it is visible."""


def _slices(batches: "Iterator[pyarrow.RecordBatch]") -> Iterator[tuple[list[bytes], list[str | None]]]:
    for batch in batches:
        if batch.column("payload").null_count:
            raise SnapshotFailedError("a row's `payload` is NULL: leave such rows out, or make it empty")
        for start in range(0, batch.num_rows, _SLICE):
            rows = batch.slice(start, _SLICE)
            payloads = rows.column("payload").to_pylist()
            yield (
                payloads,
                rows.column("item_key").to_pylist() if "item_key" in rows.schema.names else [None] * len(payloads),
            )


@contextmanager
def _engine(url: str, pool: type[Pool] = NullPool) -> Iterator[Engine]:
    engine = queues.create_engine(url, poolclass=pool)
    try:
        yield engine
    finally:
        engine.dispose()
