"""lrq with Spark: snapshots that Spark jobs build, and receive queues and the send log as Spark sources.

PySpark is imported at the first use, not with this package.
"""

from lr_client.spark.formats import register
from lr_client.spark.receive.exactly_once import exactly_once
from lr_client.spark.session import ensure_java, local_session
from lr_client.spark.snapshot.context import SparkSnapshotContext
from lr_client.spark.snapshot.provider import SparkSnapshotProvider

__all__ = [
    "SparkSnapshotContext",
    "SparkSnapshotProvider",
    "ensure_java",
    "exactly_once",
    "local_session",
    "register",
]
