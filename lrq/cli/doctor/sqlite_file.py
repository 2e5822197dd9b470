"""Check the file of a SQLite database: its mode, its folder and the room there."""

import shutil
import sqlite3
from collections.abc import Iterator
from typing import Final

from sqlalchemy import Engine

from lrq.cli.doctor.findings import Finding, ok, problem, warning
from lrq.cli.words import size
from queues.database import urls

_CHECK: Final = "sqlite"
#: The oldest version of SQLite with all statements that lrq uses.
OLDEST: Final = (3, 35)
#: Free bytes below which there is a warning, and below which there is a problem.
LITTLE: Final = 1024**3
TOO_LITTLE: Final = 64 * 1024**2


def look(engine: Engine) -> Iterator[Finding]:
    """Yield the findings about the file of *engine*."""
    with engine.connect() as connection:
        yield mode(str(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()))
    yield version(sqlite3.sqlite_version_info)
    path = urls.file_of(engine.url)
    if path is not None:
        folder = path.absolute().parent
        yield room(str(folder), shutil.disk_usage(folder).free)


def mode(name: str) -> Finding:
    """Judge the journal mode. Pure."""
    if name == "wal":
        return ok(_CHECK, "the file is in WAL mode")
    return warning(
        _CHECK,
        f"the file is in the mode {name}, in which readers and writers stop each other",
        "put the file on a local disk and run `lrq init`, which sets the mode WAL",
    )


def version(found: tuple[int, ...]) -> Finding:
    """Judge the version of SQLite. Pure."""
    text = ".".join(map(str, found))
    if found >= OLDEST:
        return ok(_CHECK, f"SQLite {text} is supported")
    return problem(_CHECK, f"SQLite {text} is too old", "use a Python with SQLite 3.35 or later")


def room(folder: str, free: int) -> Finding:
    """Judge the free bytes in *folder*. Pure."""
    if free >= LITTLE:
        return ok(_CHECK, f"{folder} has room for {size(free)}")
    level = warning if free >= TOO_LITTLE else problem
    return level(_CHECK, f"{folder} has room for {size(free)} only", "free some space, or lower retention_bytes")
