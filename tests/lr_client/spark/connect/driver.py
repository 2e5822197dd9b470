"""An application without Java that builds snapshots by Spark Connect. Run as: driver.py <url> <folder>.

The first snapshot for `lima` halts in its tasks for ever, and the tasks of one for `oslo` fail. During one for `riga`
the session ends at the server, as after an hour without work.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import queues
from lr_client.snapshot.requests import SnapshotTransmitter
from lr_client.spark import SparkSnapshotContext, SparkSnapshotProvider


def halting(halted: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function for `mapInArrow` that makes the file *halted*, and never ends."""

    def halt(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            halted.touch()
            threading.Event().wait()
            yield batch

    return halt


def build(spark: Any, context: SparkSnapshotContext) -> Any:
    table = context.read_table("readings", partitions=4)
    rows = table.selectExpr("cast(words as binary) payload", "cast(id as string) item_key")
    halted = Path(sys.argv[2]) / "halted"
    if "lima" in context.destinations and not halted.exists():
        return rows.mapInArrow(halting(halted), "payload binary, item_key string")
    if "riga" in context.destinations:
        spark.client.release_session()
    if "oslo" in context.destinations:
        return rows.selectExpr("cast(null as binary) payload")
    return rows


def session() -> Any:
    """Connect to the server at the address in `SPARK_REMOTE`."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def main() -> None:
    url, folder = sys.argv[1:]
    SnapshotTransmitter(
        queues.create_engine(url),
        "policy",
        SparkSnapshotProvider(session, build),
        poll_interval=0.05,
        backoff=lambda _attempt: 3600.0,
        scratch_folder=Path(folder),
    )
    threading.Event().wait()


if __name__ == "__main__":
    main()
