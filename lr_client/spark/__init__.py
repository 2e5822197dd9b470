"""lrq and Spark: snapshots that Spark jobs build, receive queues and the log as Spark sources.

PySpark is imported when it is first needed, not with this package.
"""

from lr_client.spark.context import SparkSnapshotContext
from lr_client.spark.exactly_once import exactly_once
from lr_client.spark.formats import register
from lr_client.spark.provider import SparkSnapshotProvider
from lr_client.spark.session import ensure_java, local_session

__all__ = [
    "SparkSnapshotContext",
    "SparkSnapshotProvider",
    "ensure_java",
    "exactly_once",
    "local_session",
    "register",
]
