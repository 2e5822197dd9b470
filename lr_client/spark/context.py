"""What a function that builds a snapshot is given."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lr_client.cut import Cut, connect_at
from lr_client.snapshot_context import SnapshotContext
from lr_client.spark.estimate import about
from lr_client.spark.staging import Staging
from lr_client.spark.words import in_one_sentence
from queues.names import SiteId
from queues.positions import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkSnapshotContext:
    """What `build` is given: which snapshot it is for, and tables at its cut."""

    def __init__(
        self, spark: "SparkSession", context: SnapshotContext, url: str, staging: Staging | None = None
    ) -> None:
        self._spark = spark
        self._context = context
        self._url = url
        self._staging = staging
        self._rows = 0

    @property
    def sync_id(self) -> str:
        """Which snapshot sync this is."""
        return self._context.sync_id

    @property
    def destination(self) -> SiteId:
        """The site that the snapshot is for: give it its own part only.

        As long as `build` does not look at this, one job serves all sites that wait.
        """
        return self._context.destination

    @property
    def destinations(self) -> tuple[SiteId, ...]:
        """All sites that the snapshot is for; the same rows go to each of them."""
        return self._context.destinations

    def expect(self, rows: int) -> None:
        """Say about how many rows there will be; by default it is taken from the tables that are read."""
        self._context.expect(rows)

    @property
    def reason(self) -> str:
        """Why it was asked for."""
        return self._context.reason

    @property
    def base(self) -> Position:
        """The position in the log that `snapshot` was taken at."""
        return self._context.base

    @property
    def snapshot(self) -> Cut:
        """The pinned cut."""
        return self._context.snapshot

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the result any more."""
        return self._context.cancelled

    def read_table(self, name: str, *, partitions: int = 4, columns: Sequence[str] | None = None) -> "DataFrame":
        """Return a table (`name` or `schema.name`) as it is at the cut, read in parallel by about *partitions* tasks.

        Until the snapshot is built, PostgreSQL keeps others from altering or truncating it. Raises
        `SnapshotFailedError` when there is no such table, or a column has a type that Spark cannot hold: choose
        *columns* then.
        """
        options = {"url": self._url, "cut": str(self.snapshot), "table": name, "partitions": str(partitions)}
        if columns is not None:
            options["columns"] = json.dumps(list(columns))
        with in_one_sentence():
            table = self._spark.read.format("lrq_table").options(**options).load()
        self.snapshot.keep(name)
        with connect_at(self.snapshot.engine, str(self.snapshot)) as connection:
            self._rows += about(connection, name)
        self._context.expect(self._rows)
        with in_one_sentence():
            return table if self._staging is None else self._staging.copied(table)
