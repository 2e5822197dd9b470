"""Spark data source `lrq_snapshot`: writes a DataFrame as a snapshot, which the driver publishes as a whole.

    spark.dataSource.register(SnapshotFormat)
    df.write.format("lrq_snapshot").options(url=..., sync_id=...).mode("append").save()

Each task attempt writes its rows under a unique number. The driver's commit publishes exactly the attempts that Spark
names. Rows of failed, repeated, killed and speculative attempts never become visible and are deleted later.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from lr_client.spark.options import number, refuse_misspelt
from lr_client.spark.snapshot.part_task import PartTask, engine_at, usual_limits
from queues import send_snapshot
from queues.database import leases
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.errors import SnapshotCancelledError, SnapshotFailedError
from queues.send_snapshot import attempts as snapshot_attempts
from queues.send_snapshot.block_packer import WriteLimits
from queues.send_snapshot.states import Attempt, Part, transmitter_lease

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]


_OPTIONS: Final = ("url", "sync_id", "build", "generation", "max_payload_bytes", "block_rows")


def check_schema(schema: StructType) -> None:
    """Raise `SnapshotFailedError` unless `payload` is a binary column and `item_key`, if present, a string column."""
    types = {field.name: field.dataType for field in schema.fields}
    if "payload" not in types:
        raise SnapshotFailedError(
            f"the DataFrame has no column `payload` among {sorted(types)}: add one of type binary"
        )
    for name, wanted in (("payload", BinaryType()), ("item_key", StringType())):
        if schema.names.count(name) > 1:
            raise SnapshotFailedError(f"the DataFrame has two columns `{name}`: drop or rename one of them")
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
        refuse_misspelt(options, _OPTIONS)
        for name in ("url", "sync_id"):
            if name not in options:
                raise SnapshotFailedError(f"format('lrq_snapshot') needs the option `{name}`")
        with engine_at(options["url"]) as engine, reading(engine) as connection:
            if "build" in options:
                attempt = snapshot_attempts.by_build(connection, options["build"])
            else:
                attempt = snapshot_attempts.under_way(connection, options["sync_id"])
            limits = usual_limits(engine)
        if attempt is None:
            raise SnapshotCancelledError(f"snapshot {options['sync_id']} is not being built, or not in this attempt")
        limits = replace(
            limits,
            payload_bytes=number(options, "max_payload_bytes", limits.payload_bytes),
            block_rows=number(options, "block_rows", limits.block_rows),
        )
        lease = None
        if "generation" in options:
            lease = Lease(transmitter_lease(attempt.client), attempt.owner, number(options, "generation", 1))
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
        return PartWritten(PartTask(self._url, self._attempt, self._limits).write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the parts of *messages*; raise `SnapshotFailedError` for an attempt without a base."""
        parts = [message.part for message in messages if isinstance(message, PartWritten)]
        with engine_at(self._url) as engine, writing(engine) as connection:
            pinned = send_snapshot.of_build(connection, self._attempt.build)
            if pinned is None or not pinned.base.branch:
                raise SnapshotFailedError(f"snapshot {self._attempt.sync_id} has no base: start it by a transmitter")
            if self._lease is not None:
                leases.check(connection, self._lease)
            snapshot_attempts.publish(connection, self._attempt, base=pinned.base, parts=parts)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: the written rows are invisible and are deleted later."""
