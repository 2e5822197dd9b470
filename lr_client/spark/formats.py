"""Register the formats of lrq in a Spark session."""

import sys
import threading
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark refuses a format that two threads register at the same time.
_REGISTERING = threading.Lock()
_registered: "WeakSet[SparkSession]" = WeakSet()


def register(spark: "SparkSession") -> None:
    """Register the formats of lrq in *spark*, and activate *spark* in this thread. A second call is harmless.

    The formats `lrq_receive` and `lrq_log` read queues; `lrq_log` also writes the log. `lrq_table` and `lrq_snapshot`
    build snapshots.
    """
    from lr_client.spark.log.format import LogFormat
    from lr_client.spark.receive.format import ReceiveFormat
    from lr_client.spark.snapshot.format import SnapshotFormat
    from lr_client.spark.snapshot.table_format import TableFormat

    core = getattr(spark, "sparkContext", None)
    if core is not None and core.pythonExec == "python3":  # Spark's default: workers need the packages of this one
        core.pythonExec = sys.executable
    # Spark looks up formats in the active session of the thread; createDataFrame activates *spark*.
    spark.createDataFrame([], "payload binary")
    with _REGISTERING:
        if spark in _registered:
            return
        for source in (SnapshotFormat, TableFormat, ReceiveFormat, LogFormat):
            spark.dataSource.register(source)
        _registered.add(spark)
