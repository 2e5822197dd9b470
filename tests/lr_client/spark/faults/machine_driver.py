"""A process with a provider whose first build kills the virtual machine of Spark.

Run as: machine_driver.py <url> <folder> <given>. The second session waits for the file `go` in the folder, and the
process ends with the file `ended`. The provider is given a `session`, or a `function` that returns one.
"""

import sys
from pathlib import Path
from typing import Any

import psutil

import queues
from lr_client.snapshot.requests import SnapshotTransmitter
from lr_client.spark import SparkSnapshotContext, SparkSnapshotProvider, local_session
from tests.waiting import eventually

LONGEST = 600.0

tries: list[str] = []


def kill_the_machine() -> None:
    for child in psutil.Process().children(recursive=True):
        if "java" in child.name():
            child.kill()
            child.wait()


def session() -> Any:
    if tries:
        eventually((folder / "go").exists, timeout=LONGEST)
    return local_session(memory="512m", log_level="OFF")


if __name__ == "__main__":
    url, folder, given = sys.argv[1], Path(sys.argv[2]), sys.argv[3]

    def build(spark: Any, context: SparkSnapshotContext) -> Any:
        tries.append(context.sync_id)
        if len(tries) == 1:
            kill_the_machine()
        return spark.range(3).selectExpr("cast(cast(id as string) as binary) payload")

    provider = SparkSnapshotProvider(session() if given == "session" else session, build)
    with SnapshotTransmitter(queues.create_engine(url), "policy", provider, backoff=lambda _attempt: 0.1):
        eventually((folder / "ended").exists, timeout=LONGEST)
