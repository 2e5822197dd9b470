"""Parquet copies of tables, so that the database need not hold a cut during a long job."""

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Engine

from queues.database.transactions import reading
from queues.send_snapshot.states import ended_builds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PREFIX: Final = "lrq-"


class TableCopies:
    """The copies of one attempt, in a subfolder of *folder*, a path or URI that every task can reach.

    Two attempts may overlap for a moment, when a stopped process goes on. So each has a subfolder of its own.
    """

    def __init__(self, spark: "SparkSession", folder: str, build: str, engine: Engine) -> None:
        """Remove the copies that killed attempts may have left, for any snapshot in the database of *engine*."""
        self._spark = spark
        self._folder = folder.rstrip("/")
        self._own = f"{self._folder}/{_PREFIX}{build}"
        self._number = 0
        self._remove_left(engine)

    def copied(self, table: "DataFrame") -> "DataFrame":
        """Write *table* as Parquet now; return a DataFrame that reads the copy."""
        self._number += 1
        path = f"{self._own}/{self._number}"
        table.write.parquet(path)
        return self._spark.read.schema(table.schema).parquet(path)

    def remove(self) -> None:
        """Remove all copies of this attempt. A second call is harmless."""
        path, files = self._opened(self._own)
        files.delete(path, True)

    def _remove_left(self, engine: Engine) -> None:
        """Remove the copies of ended attempts. Copies of other databases stay, because a job may read them."""
        pattern, files = self._opened(f"{self._folder}/{_PREFIX}*.*")
        paths = [found.getPath() for found in files.globStatus(pattern) or ()]
        left = {path.getName().removeprefix(_PREFIX): path for path in paths}
        with reading(engine) as connection:
            ended = ended_builds(connection, left)
        for build in ended:
            files.delete(left[build], True)

    def _opened(self, path: str) -> tuple[Any, Any]:
        """Return a path and its file system as Java objects."""
        # Only the JVM supports every file system that Spark can use.
        spark: Any = self._spark
        there = spark._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001 - PySpark offers no other way
        return there, there.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
