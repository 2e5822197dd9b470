"""The snapshot providers of an application that `lrq provide` runs."""

from pathlib import Path

from sqlalchemy import text

import lrq
from tests.waiting import eventually

airports = lrq.SqlSnapshotProvider("SELECT id, name FROM airports ORDER BY id")
broken = lrq.SqlSnapshotProvider("SELECT id FROM nothing_here")


def function(context):
    """Transmit the names only."""
    with context.snapshot.connect() as connection:
        for name in connection.execute(text("SELECT name FROM airports ORDER BY id")).scalars():
            context.transmit(name.encode())


def held(context):
    """Wait, after making the file `inside`, until the file `go` is there or the snapshot is cancelled."""
    function(context)
    Path("inside").touch()
    eventually(lambda: Path("go").exists() or context.cancelled, timeout=60)


def each(context):
    """Transmit the name of the site, in a build of its own, after a pause at the cut."""
    with context.snapshot.connect() as connection:
        names = connection.execute(text("SELECT name, pg_sleep(0.2) FROM airports ORDER BY id")).scalars()
        for name in names:
            context.transmit(f"{name} for {context.destination}".encode())


def factory():
    return airports


async def asynchronous(context): ...
