"""An application whose snapshots halt in the middle of each part. Run as: driver.py <master> <url> <folder>.

The snapshots continue when the file `go` is in the folder.
"""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import queues
from lr_client.snapshot.requests import SnapshotTransmitter
from lr_client.spark import SparkSnapshotContext, SparkSnapshotProvider, local_session
from tests.lr_client.spark.faults.readings import HALT, PATIENCE
from tests.waiting import eventually


def halting(folder: str) -> Any:
    """Return a function for `mapPartitions` that halts within each part."""

    def halt(rows: Iterator[Any]) -> Iterator[Any]:
        for number, row in enumerate(rows, 1):
            yield row
            if number == HALT:
                eventually((Path(folder) / "go").exists, timeout=PATIENCE)

    return halt


def main() -> None:
    master, url, folder = sys.argv[1:]
    options = {"spark.master": master, "spark.executor.memory": "512m", "spark.executor.cores": "1"}

    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        table = context.read_table("readings", partitions=4)
        rows = table.selectExpr("cast(words as binary) payload", "cast(id as string) item_key")
        return spark.createDataFrame(rows.rdd.mapPartitions(halting(folder)), "payload binary, item_key string")

    provider = SparkSnapshotProvider(
        lambda: local_session(memory="512m", log_level="WARN", options=options), build, url=url
    )
    SnapshotTransmitter(
        queues.create_engine(url),
        "policy",
        provider,
        poll_interval=0.05,
        lease_seconds=5.0,
        scratch_folder=Path(folder),
    )
    threading.Event().wait()


if __name__ == "__main__":
    main()
