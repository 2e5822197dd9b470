"""Copies of tables, made as fast as they can be read, so that the database need not hold its cut while a job works."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Staging:
    """The copies of one build, in a folder of its own under *folder*: a path or URI that every task can reach."""

    def __init__(self, spark: "SparkSession", folder: str, build: str) -> None:
        """Open nothing yet; remove what a killed attempt may have left."""
        self._spark = spark
        self._own = f"{folder.rstrip('/')}/lrq-{build.rpartition('.')[0]}"
        self._number = 0
        self.remove()

    def copied(self, table: "DataFrame") -> "DataFrame":
        """Copy *table* now, as Parquet; return the copy."""
        self._number += 1
        path = f"{self._own}/{self._number}"
        table.write.parquet(path)
        return self._spark.read.schema(table.schema).parquet(path)

    def remove(self) -> None:
        """Remove all copies. Repeating it is harmless."""
        # Only the JVM knows every kind of file system that Spark does.
        spark: Any = self._spark
        path = spark._jvm.org.apache.hadoop.fs.Path(self._own)  # noqa: SLF001 - PySpark offers no other way
        path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)  # noqa: SLF001
