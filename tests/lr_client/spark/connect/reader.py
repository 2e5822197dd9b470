"""Prints the entries of a receive queue, and applies them to the table `streamed`. Run as: reader.py <url> <folder>."""

import sys

from pyspark.sql import SparkSession

from lr_client.spark import register
from tests.lr_client.spark.patience import patiently
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
    patiently(writer.trigger(availableNow=True).start).awaitTermination()


if __name__ == "__main__":
    main()
