"""The snapshot provider at Paris: a Spark job that builds a site's snapshot from the tables."""

import json
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from sqlalchemy import select

from lrq.demo.airports import COLUMNS, HUBS, REGIONS
from lrq.demo.tally import Tally

if TYPE_CHECKING:
    from lr_client.spark import SparkSnapshotContext

_COUNTS = (Tally.site, Tally.entries, Tally.payload_bytes, Tally.fingerprint)


def build(spark: SparkSession, context: "SparkSnapshotContext") -> DataFrame:
    """Return one message for each airport of the destination, and one message with the destination's tally.

    All rows are read at one cut of the database; later changes follow in the log.
    """
    zone = f.substring_index("tz", "/", 1)
    owed = f.col("icao").isin(*HUBS) | zone.isin(*REGIONS[context.destination])
    airports = context.read_table("airports", partitions=2).where(owed)
    message = f.to_json(f.struct(f.struct(*COLUMNS).alias("upsert")))
    tally = spark.createDataFrame([(_tally(context),)], "payload binary")
    return airports.select(message.cast("binary").alias("payload")).union(tally)


def _tally(context: "SparkSnapshotContext") -> bytes:
    """Return the message with the destination's tally, read at the same cut without Spark."""
    with context.snapshot.connect() as connection:
        counts = connection.execute(select(*_COUNTS).where(Tally.site == context.destination)).one()
    return json.dumps({"tally": counts._asdict()}).encode()
