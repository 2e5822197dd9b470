"""Spark data source `lrq_log`: read the send log of a site for analysis, and write into the log.

    from lr_client.spark import register

    register(spark)
    spark.read.format("lrq_log").options(url=...).load().groupBy("client").count()
    spark.readStream.format("lrq_log").options(url=...).load()

    df.write.format("lrq_log").options(url=..., client=...).mode("append").save()
    df.writeStream.format("lrq_log").options(url=..., client=..., checkpointLocation=...).start()

docs/spark-log.md has the rules of writing. Readers see entries from their tick until they are trimmed. A stream or a
job whose next entries were trimmed ends with `TrimmedError`. Begin with a new checkpoint then.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from sqlalchemy import NullPool

import queues
from lr_client.spark.log.ranges import SCHEMA, LogOptions, ranges, read_range
from lr_client.spark.log.write_options import LogWriteOptions, check_columns, require_append
from lr_client.spark.log.writer import LogBatchWriter, LogStreamWriter, require_tables
from lr_client.spark.options import database_url, number, refuse_misspelt
from queues.database import migrations
from queues.database.transactions import reading
from queues.errors import MissingDependencyError, UsageError
from queues.send_log.reads import newest_tick, trimmed_seq

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

    from lr_client.spark.log.stream import LogStream


class LogFormat(DataSource):
    """`format("lrq_log")`; for reading with the options `url`, `partitions` (4) and `maxEntriesPerBatch` (10000).

    For writing, the options are those of `LogWriteOptions`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "lrq_log"

    def schema(self) -> StructType:
        """Return the columns of `SCHEMA`."""
        return SCHEMA

    def reader(self, schema: StructType) -> "LogReader":  # noqa: ARG002 - Spark's signature
        """Return the reader of the entries kept now."""
        return LogReader(self._chosen)

    def streamReader(self, schema: StructType) -> "LogStream":  # noqa: ARG002, N802 - Spark's signature
        """Return the reader of a stream; raise `MissingDependencyError` for a PySpark below 4.2."""
        try:
            from lr_client.spark.log.stream import LogStream
        except ImportError as error:
            raise MissingDependencyError(
                f"readStream of lrq_log needs PySpark 4.2 ({error}): run `pip install -U 'lrq[spark]'`"
            ) from error
        return LogStream(self._chosen)

    def writer(self, schema: StructType, overwrite: bool) -> LogBatchWriter:
        """Return the writer of one DataFrame; raise `UsageError` for wrong columns or options."""
        options = self._to_write(schema, overwrite=overwrite)
        options.require_batch()
        require_tables(options)
        return LogBatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LogStreamWriter:  # noqa: N802 - Spark's
        """Return the writer of a stream; raise `UsageError` for wrong columns or options."""
        options = self._to_write(schema, overwrite=overwrite)
        options.require_stream()
        require_tables(options)
        return LogStreamWriter(options)

    def _to_write(self, schema: StructType, *, overwrite: bool) -> LogWriteOptions:
        require_append(overwrite=overwrite)
        options = LogWriteOptions.parse(cast("Mapping[str, str]", self.options))
        check_columns(schema, options)
        return options

    @property
    def _chosen(self) -> LogOptions:
        options = cast("Mapping[str, str]", self.options)
        for column in ("client", "destinations"):
            if column in options:
                raise UsageError(
                    f"lrq_log reads all entries, and has the option `{column}` for writing only: filter the rows by "
                    "the column of that name"
                )
        refuse_misspelt(options, ("url", "partitions", "maxEntriesPerBatch"))
        url = database_url(options, "lrq_log")
        return LogOptions(url, number(options, "partitions", 4), number(options, "maxEntriesPerBatch", 10_000))


class LogReader(DataSourceReader):
    """Reads the kept entries once."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Divide the kept entries into ranges of ticks, one for each task."""
        engine = queues.create_engine(self._options.url, poolclass=NullPool)
        with reading(engine, snapshot=True) as connection:
            migrations.require(connection)
            newest = newest_tick(connection)
            upto = newest.end_seq if newest else 0
            return ranges(connection, trimmed_seq(connection), upto, self._options.partitions)

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Read one range, as `read_range`."""
        return read_range(self._options.url, partition.value)
