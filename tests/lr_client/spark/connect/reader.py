"""Prints the entries of a receive queue, and applies them to the table `streamed`. Run as: reader.py <url> <folder>."""

import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from lr_client.spark import register
from tests.lr_client.spark.sources.applying import noting


def main() -> None:
    url, folder = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    register(spark)
    given = {"url": url, "client": "policy"}
    for row in spark.read.format("lrq_receive").options(**given).load().collect():
        print(row.payload.decode())
    stream = spark.readStream.format("lrq_receive").options(**given, snapshotMarkers="true").load()
    writer = stream.writeStream.foreachBatch(noting(url)).option("checkpointLocation", f"{folder}/checkpoint")
    started(writer.trigger(availableNow=True)).awaitTermination()


def started(writer: DataStreamWriter) -> StreamingQuery:
    """Start a stream; on a busy machine the worker of its function sometimes needs more than Spark's ten seconds."""
    for _ in range(9):
        try:
            return writer.start()
        except PySparkException as error:
            if "connect back" not in str(error):
                raise
    return writer.start()


if __name__ == "__main__":
    main()
