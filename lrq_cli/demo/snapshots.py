"""The snapshot provider at Paris: a Spark job that makes everything a site is owed out of the tables themselves."""

import json
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from sqlalchemy import select

from lrq_cli.demo.airports import COLUMNS, HUBS, REGIONS
from lrq_cli.demo.tally import Tally

if TYPE_CHECKING:
    from lr_client.spark import SparkSnapshotContext

_COUNTS = (Tally.site, Tally.entries, Tally.payload_bytes, Tally.fingerprint)


def build(spark: SparkSession, context: "SparkSnapshotContext") -> DataFrame:
    """Return one message for each airport that the destination is owed, and one with the tally of what it was sent.

    All of it is read at one cut of the database; what is written after that follows as the log.
    """
    zone = f.substring_index("tz", "/", 1)
    owed = f.col("icao").isin(*HUBS) | zone.isin(*REGIONS[context.destination])
    airports = context.read_table("airports", partitions=2).where(owed)
    message = f.to_json(f.struct(f.struct(*COLUMNS).alias("upsert")))
    tally = spark.createDataFrame([(_tally(context),)], "payload binary")
    return airports.select(message.cast("binary").alias("payload")).union(tally)


def _tally(context: "SparkSnapshotContext") -> bytes:
    """Return the message with the destination's tally: a row that needs no Spark, from the same cut."""
    with context.snapshot.connect() as connection:
        counts = connection.execute(select(*_COUNTS).where(Tally.site == context.destination)).one()
    return json.dumps({"tally": counts._asdict()}).encode()
