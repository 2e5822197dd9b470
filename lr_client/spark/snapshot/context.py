"""The context of a function that builds a snapshot with Spark."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lr_client.snapshot.context import SnapshotContext
from lr_client.snapshot.cut import Cut
from lr_client.spark.errors import in_one_sentence
from lr_client.spark.snapshot.staging import TableCopies
from queues.names import SiteId
from queues.positions import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkSnapshotContext:
    """The argument of `build`: describes the snapshot and reads tables at its cut."""

    def __init__(
        self, spark: "SparkSession", context: SnapshotContext, url: str, staging: TableCopies | None = None
    ) -> None:
        self._spark = spark
        self._context = context
        self._url = url
        self._staging = staging
        self._rows = 0

    @property
    def sync_id(self) -> str:
        """The id of the snapshot sync; all attempts of one sync share it."""
        return self._context.sync_id

    @property
    def destination(self) -> SiteId:
        """The site that receives the snapshot.

        One job serves all waiting sites until `build` reads this property; then each site gets its own job.
        """
        return self._context.destination

    @property
    def destinations(self) -> tuple[SiteId, ...]:
        """All sites that receive the snapshot; each of them gets the same rows."""
        return self._context.attempt.destinations

    def expect(self, rows: int) -> None:
        """Set the approximate number of rows; by default, the sum of the estimates for all tables read."""
        self._context.attempt.expect(rows)

    @property
    def reason(self) -> str:
        """Why the snapshot was requested."""
        return self._context.reason

    @property
    def base(self) -> Position:
        """The position of `snapshot` in the log; later entries are sent as the log."""
        return self._context.base

    @property
    def snapshot(self) -> Cut:
        """The pinned cut, at which all rows must be read."""
        return self._context.snapshot

    @property
    def cancelled(self) -> bool:
        """Whether the snapshot was cancelled."""
        return self._context.cancelled

    def read_table(self, name: str, *, partitions: int = 4, columns: Sequence[str] | None = None) -> "DataFrame":
        """Return a table (`name` or `schema.name`) as it is at the cut, read in parallel by about *partitions* tasks.

        The tasks share the rows of all partitions, and of all tables that inherit. Until the cut is closed, PostgreSQL
        locks the table against altering and truncation. Raises `SnapshotFailedError` when there is no such table, or a
        column's type has no Spark type. Choose *columns* then.
        """
        from lr_client.spark.snapshot.table_format import TableReader, frame_of

        options = {"url": self._url, "cut": str(self.snapshot), "table": name, "partitions": str(partitions)}
        if columns is not None:
            options["columns"] = json.dumps(list(columns))
        with in_one_sentence():
            reader = TableReader(options)
            table = frame_of(self._spark, reader)
        self.snapshot.keep(name)
        self._rows += reader.estimated_rows
        self._context.attempt.expect(self._rows)
        with in_one_sentence():
            return table if self._staging is None else self._staging.copied(table)
