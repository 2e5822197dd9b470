"""Parquet copies of tables, so that the database need not hold a cut during a long job."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TableCopies:
    """The copies of one build, in a subfolder of *folder*, a path or URI that every task can reach."""

    def __init__(self, spark: "SparkSession", folder: str, build: str) -> None:
        """Remove the copies that a killed attempt may have left."""
        self._spark = spark
        self._own = f"{folder.rstrip('/')}/lrq-{build.rpartition('.')[0]}"
        self._number = 0
        self.remove()

    def copied(self, table: "DataFrame") -> "DataFrame":
        """Write *table* as Parquet now; return a DataFrame that reads the copy."""
        self._number += 1
        path = f"{self._own}/{self._number}"
        table.write.parquet(path)
        return self._spark.read.schema(table.schema).parquet(path)

    def remove(self) -> None:
        """Remove all copies. A second call is harmless."""
        # Only the JVM supports every file system that Spark can use.
        spark: Any = self._spark
        path = spark._jvm.org.apache.hadoop.fs.Path(self._own)  # noqa: SLF001 - PySpark offers no other way
        path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)  # noqa: SLF001
