"""Spark data source `lrq_snapshot`: writes a DataFrame as a snapshot, published by the driver, all of it or nothing.

    spark.dataSource.register(SnapshotFormat)
    df.write.format("lrq_snapshot").options(url=..., sync_id=...).mode("append").save()

Each task writes its rows into the queue under numbers of its own; the driver's commit publishes those of exactly the
tasks that Spark names. What failed, retried, killed and speculative tasks wrote is never visible, and collected later.
"""

import secrets
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import queues
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType
from sqlalchemy import Engine, NullPool
