"""Parquet copies of tables, so that the database need not hold a cut during a long job."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TableCopies:
    """The copies of one attempt, in a subfolder of *folder*, a path or URI that every task can reach.

    Two attempts may overlap for a moment, when a stopped process goes on. So each has a subfolder of its own.
    """

    def __init__(self, spark: "SparkSession", folder: str, build: str) -> None:
        """Remove the copies that killed earlier attempts of the same snapshot may have left."""
        self._spark = spark
        self._folder = folder.rstrip("/")
        self._own = f"{self._folder}/lrq-{build}"
        self._number = 0
        self._remove_earlier(build)

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

    def _remove_earlier(self, build: str) -> None:
        snapshot, _, own = build.rpartition(".")
        pattern, files = self._opened(f"{self._folder}/lrq-{snapshot}.*")
        for found in files.globStatus(pattern) or ():
            number = found.getPath().getName().rpartition(".")[2]
            if number.isdecimal() and int(number) < int(own):
                files.delete(found.getPath(), True)

    def _opened(self, path: str) -> tuple[Any, Any]:
        """Return a path and its file system as Java objects."""
        # Only the JVM supports every file system that Spark can use.
        spark: Any = self._spark
        there = spark._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001 - PySpark offers no other way
        return there, there.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
