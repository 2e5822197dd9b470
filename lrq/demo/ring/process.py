"""The processes of the ring's demonstration: `python -m lrq.demo.ring.process ROLE FOLDER`.

Each process ends when its standard input is closed: on request, and also if the demonstration itself dies.
"""

import os
import signal
import sys
import threading
from pathlib import Path

import queues
from lr_client import subscribe
from lr_server import LogReplicationServer
from lrq.cli.main import run as lrq
from lrq.demo.end_of_input import end_of_input
from lrq.demo.ring.listener import NumberListener
from lrq.demo.ring.places import SINK, RingPlaces


def serve(places: RingPlaces, member: str, end: threading.Event) -> int:
    """Run `lrq serve` for one member of the ring, until *end* takes the place of Ctrl-C."""
    threading.Thread(target=_terminate_after, args=(end,), name="demo-end", daemon=True).start()
    return lrq(["serve", "--config", str(places.config(member))])


def follow(places: RingPlaces, end: threading.Event) -> int:
    """Run the sink: its server and its application."""
    engine = queues.create_engine(places.database(SINK))
    with LogReplicationServer(places.sink_settings()), subscribe(engine, NumberListener(), poll_interval=0.2):
        end.wait()
    return 0


def _terminate_after(end: threading.Event) -> None:
    end.wait()
    os.kill(os.getpid(), signal.SIGTERM)


def main(role: str, folder: str) -> int:
    """Run *role*, a member or the sink, until the standard input is closed."""
    places, end = RingPlaces(Path(folder)), end_of_input()
    return follow(places, end) if role == SINK else serve(places, role, end)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
