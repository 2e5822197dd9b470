"""Spark data source `lrq_snapshot`: writes a DataFrame as a snapshot, which the driver publishes as a whole.

    spark.dataSource.register(SnapshotFormat)
    df.write.format("lrq_snapshot").options(url=..., sync_id=...).mode("append").save()

Each task attempt writes its rows under a unique number. The driver's commit publishes exactly the attempts that Spark
names. Rows of failed, repeated, killed and speculative attempts never become visible and are deleted later.
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
from queues import send_snapshot
from queues.database import dialects, leases
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.errors import SnapshotCancelledError, SnapshotFailedError
from queues.send_snapshot import attempts as snapshot_attempts
from queues.send_snapshot.block_packer import WriteLimits
from queues.send_snapshot.states import Attempt, Part, transmitter_lease
from queues.send_snapshot.writer import PartWriter

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

#: Rows that are converted to Python objects at a time.
_SLICE = 500
# For databases with concurrent writers: no writer waits for a batch, so fewer commits are better.
_LARGE_BATCHES = WriteLimits(batch_rows=8_000, batch_bytes=8 * 1024 * 1024)


def check_schema(schema: StructType) -> None:
    """Raise `SnapshotFailedError` unless `payload` is a binary column and `item_key`, if present, a string column."""
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
    """The part that one task has written."""

    part: Part


class SnapshotFormat(DataSource):
    """`format("lrq_snapshot")`; requires the options `url` and `sync_id` of a snapshot that is being built."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "lrq_snapshot"

    def writer(self, schema: StructType, overwrite: bool) -> "SnapshotWriter":  # noqa: ARG002 - Spark's
        """Return the writer of one snapshot attempt: the attempt named by the option `build`, or the one under way.

        Raises `SnapshotFailedError` for a wrong schema or a missing option, `SnapshotCancelledError` for no attempt.
        """
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
            limits = WriteLimits() if dialects.of(connection).one_writer else _LARGE_BATCHES
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
    """Writes rows in Spark's tasks, and publishes them in Spark's driver."""

    def __init__(self, url: str, attempt: Attempt, lease: Lease | None, limits: WriteLimits) -> None:
        self._url = url
        self._attempt = attempt
        self._lease = lease
        self._limits = limits

    def write(self, iterator: "Iterator[pyarrow.RecordBatch]") -> PartWritten:
        """Write the rows of one task; return the written part."""
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
        """Publish the parts of *messages*; raise `SnapshotFailedError` for an attempt without a base."""
        parts = [message.part for message in messages if isinstance(message, PartWritten)]
        with _engine(self._url) as engine, writing(engine) as connection:
            pinned = send_snapshot.of_build(connection, self._attempt.build)
            if pinned is None or not pinned.base.branch:
                raise SnapshotFailedError(f"snapshot {self._attempt.sync_id} has no base: start it by a transmitter")
            if self._lease is not None:
                leases.check(connection, self._lease)
            snapshot_attempts.publish(connection, self._attempt, base=pinned.base, parts=parts)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: the written rows are invisible and are deleted later."""


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
