"""Refuse to work in a SQLite file that was replaced or removed beneath its open connections.

Such a connection goes on in a file without a name, and all its commits are lost with its process.
"""

import os
import sqlite3
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, event

_OPENED: Final = "lrq_file"


class _Watch:
    """Remembers which file each connection of one engine has opened."""

    def __init__(self, file: Path) -> None:
        self._file = file.absolute()
        # New connections are refused too: a copy may not be complete yet, and this process knows the state of before.
        self._is_replaced = False

    def connecting(self, *_: Any) -> None:  # noqa: ANN401 - the arguments of the event
        if self._is_replaced:
            raise self._error()

    def opened(self, _connection: object, entry: Any) -> None:  # noqa: ANN401 - as above
        entry.info[_OPENED] = self._identity()

    def used(self, _connection: object, entry: Any, _proxy: object) -> None:  # noqa: ANN401 - as above
        if self._is_replaced or entry.info.get(_OPENED) != self._identity():
            self._is_replaced = True
            raise self._error()

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._file)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _error(self) -> sqlite3.OperationalError:
        return sqlite3.OperationalError(
            f"{self._file} was replaced or removed while this process worked with it: start the process again"
        )


def watch_file(engine: Engine, file: Path) -> None:
    """Let *engine* refuse connections once *file*, its database, is another file than the one that it has opened."""
    watch = _Watch(file)
    event.listen(engine, "do_connect", watch.connecting)
    event.listen(engine, "connect", watch.opened)
    event.listen(engine, "checkout", watch.used)
