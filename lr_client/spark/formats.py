"""The formats of lrq, made known to a Spark session."""

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Two threads that register one format at a time are refused: Spark takes the other's for one of its own.
_REGISTERING = threading.Lock()


def register(spark: "SparkSession") -> None:
    """Let *spark* find the formats of lrq, in this thread too. Repeating it is harmless.

    They are `lrq_receive` and `lrq_log` to read queues, `lrq_table` and `lrq_snapshot` to build snapshots.
    """
    from lr_client.spark.log_format import LogFormat
    from lr_client.spark.receive_format import ReceiveFormat
    from lr_client.spark.snapshot_format import SnapshotFormat
    from lr_client.spark.table_format import TableFormat

    core = getattr(spark, "sparkContext", None)
    if core is not None and core.pythonExec == "python3":  # nobody chose: the workers need what this interpreter has
        core.pythonExec = sys.executable
    # Formats are looked up in the session that is active in this thread; this makes it so.
    spark.createDataFrame([], "payload binary")
    with _REGISTERING:
        for source in (SnapshotFormat, TableFormat, ReceiveFormat, LogFormat):
            spark.dataSource.register(source)
