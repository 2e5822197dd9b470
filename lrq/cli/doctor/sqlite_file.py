"""Check the file of a SQLite database: its mode, its folder and the room there."""

import shutil
import sqlite3
from collections.abc import Iterator
from typing import Final

from sqlalchemy import URL, Engine
from sqlalchemy.exc import OperationalError

from lrq.cli.doctor.findings import Finding, Severity, ok, problem, told, warning
from lrq.cli.words import size
from queues.database import sqlite_names, urls
from queues.errors import first_line

_CHECK: Final = "sqlite"
#: Errors of a file, of its folder or of their disk that no other program's lock explains.
_REFUSALS: Final = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_PERM")
#: The oldest version of SQLite with all statements that lrq uses.
OLDEST: Final = (3, 35)
#: Free bytes below which there is a warning, and below which there is a problem.
LITTLE: Final = 1024**3
TOO_LITTLE: Final = 64 * 1024**2


def look(engine: Engine) -> Iterator[Finding]:
    """Yield the findings about the file of *engine*."""
    yield from _names(engine.url)
    with engine.connect() as connection:
        yield mode(str(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()))
    yield writable(_refusal(engine))
    yield version(sqlite3.sqlite_version_info)
    yield from _room_of(engine.url)


def lacking_room(url: URL) -> list[str]:
    """Return one sentence if the disk of a SQLite file has too little room; none for another database."""
    return [f"{found.sentence}: {found.cure}" for found in _room_of(url) if found.level is Severity.PROBLEM]


def _names(url: URL) -> Iterator[Finding]:
    path = urls.file_of(url)
    found = None if path is None else sqlite_names.problem_of(str(path.absolute()))
    if found is not None:
        yield told(_CHECK, found)


def _room_of(url: URL) -> Iterator[Finding]:
    path = urls.file_of(url)
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


def _refusal(engine: Engine) -> str:
    """Return why this user cannot write the file; empty if nothing is against that. The try is rolled back."""
    with engine.connect() as connection:
        connection.detach()  # the next check waits for locks as usual
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            # In a file that cannot be written, SQLite refuses the first change only.
            present = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
            connection.exec_driver_sql(f"PRAGMA user_version = {present}")
        except OperationalError as error:
            is_refused = getattr(error.orig, "sqlite_errorname", "").startswith(_REFUSALS)
            return first_line(error.orig) if is_refused else ""
        connection.exec_driver_sql("ROLLBACK")
    return ""


def writable(refusal: str) -> Finding:
    """Judge the words of SQLite against a transaction that writes. Pure."""
    if not refusal:
        return ok(_CHECK, "this user may write the file")
    return problem(
        _CHECK,
        f"this user cannot write the file ({refusal})",
        "act as the user of the server, or correct the rights on the file and on its folder",
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
