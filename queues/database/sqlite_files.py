"""Refuse to work in a SQLite file that was replaced or removed beneath its open connections.

Such a connection goes on in a file without a name, and all its commits are lost with its process. A removed `-wal` or
`-shm` does the same, and other processes then write the same places of the database. A file with several names
leads to that too, so it is refused before it is opened.
"""

import os
import sqlite3
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, event

from queues.database import sqlite_names

_OPENED: Final = "lrq_file"
#: The files beside a database in WAL mode. SQLite removes them only with the last connection.
_COMPANIONS: Final = ("-wal", "-shm")

_Identity = tuple[int, int] | None


class _Watch:
    """Remembers which files each connection of one engine has opened."""

    def __init__(self, file: Path) -> None:
        self._file = str(file.absolute())
        # SQLite follows symbolic links before it names the companions.
        real = os.path.realpath(self._file)
        self._companions = [f"{real}{suffix}" for suffix in _COMPANIONS]
        # New connections are refused too: a copy may not be complete yet, and this process knows the state of before.
        self._replaced: str | None = None

    def connecting(self, *_: Any) -> None:  # noqa: ANN401 - the arguments of the event
        self._refuse()
        if problem := sqlite_names.problem_of(self._file):
            raise sqlite3.OperationalError(problem)

    def opened(self, _connection: object, entry: Any) -> None:  # noqa: ANN401 - as above
        found = {each: _identity(each) for each in self._companions}
        # The connection that creates a database gets the companions only later.
        entry.info[_OPENED] = {self._file: _identity(self._file)} | {name: each for name, each in found.items() if each}

    def used(self, _connection: object, entry: Any, _proxy: object) -> None:  # noqa: ANN401 - as above
        for name, opened in entry.info[_OPENED].items():
            if self._replaced is None and _identity(name) != opened:
                self._replaced = name
        self._refuse()

    def _refuse(self) -> None:
        if self._replaced is not None:
            raise sqlite3.OperationalError(
                f"{self._replaced} was replaced or removed while this process worked with it: start the process again"
            )


def _identity(file: str) -> _Identity:
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def watch_file(engine: Engine, file: Path) -> None:
    """Let *engine* refuse connections once *file* or a companion is another file than the one that it has opened."""
    watch = _Watch(file)
    event.listen(engine, "do_connect", watch.connecting)
    event.listen(engine, "connect", watch.opened)
    event.listen(engine, "checkout", watch.used)
