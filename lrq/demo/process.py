"""The processes of the demonstration: `python -m lrq.demo.process ROLE FOLDER DATABASES`.

Each process ends when its standard input is closed: on request, and also if the demonstration itself dies.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import queues
from lr_client import RoutingQueueSenderClient, subscribe
from lr_server import LogReplicationServer
from lrq.demo.airports import REGIONS, SOURCE
from lrq.demo.editor import Editor
from lrq.demo.end_of_input import end_of_input
from lrq.demo.latency import Stopwatch
from lrq.demo.listener import AirportListener
from lrq.demo.sites import CLIENT, Places


def serve(places: Places, end: threading.Event) -> None:
    """Run the server of Paris."""
    with LogReplicationServer(places.settings(SOURCE)):
        end.wait()


def edit(places: Places, end: threading.Event) -> None:
    """Run the application of Paris."""
    editor = Editor(queues.create_engine(places.database(SOURCE)), Random(2026))
    editor.prepare()
    editor.work(end)


def provide_snapshots(places: Places, end: threading.Event) -> None:
    """Run the snapshot provider of Paris."""
    # Imported here: PySpark is slow to import, and only this process needs it.
    from lr_client.spark import SparkSnapshotProvider, local_session
    from lrq.demo.snapshots import build

    spark = local_session(options=_spark_options(places.folder))
    engine = queues.create_engine(places.database(SOURCE))
    client = RoutingQueueSenderClient(CLIENT)
    with client.start_snapshot_transmitter(engine, SparkSnapshotProvider(spark, build)):
        end.wait()
    spark.stop()


def follow(site: str) -> Callable[[Places, threading.Event], None]:
    """Return the function that runs a sink: its server and its application."""

    def run(places: Places, end: threading.Event) -> None:
        engine = queues.create_engine(places.database(site))
        listener = AirportListener(site, Stopwatch(places.journeys(site)))
        with LogReplicationServer(places.settings(site)), subscribe(engine, listener, poll_interval=0.2):
            end.wait()

    return run


ROLES: dict[str, Callable[[Places, threading.Event], None]] = {
    "paris-server": serve,
    "paris-editor": edit,
    "paris-spark": provide_snapshots,
    **{site: follow(site) for site in REGIONS},
}


def _spark_options(folder: Path) -> dict[str, str]:
    scratch = str(folder / "spark")
    return {"spark.local.dir": scratch, "spark.sql.warehouse.dir": scratch}


def main(role: str, folder: str, databases: str) -> None:
    """Run *role* until the standard input is closed."""
    ROLES[role](Places(Path(folder), databases), end_of_input())


if __name__ == "__main__":
    main(*sys.argv[1:])
