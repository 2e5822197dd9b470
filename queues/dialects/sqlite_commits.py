"""Noticing on SQLite that something was committed, without looking at any table."""

import sqlite3
from contextlib import suppress

from sqlalchemy import Engine, PoolProxiedConnection

from queues.errors import StoreUnavailableError
from queues.transactions import mapped_errors


class DataVersion:
    """Tells whether anything was committed to the file since the last look (2.5 µs), without a transaction."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._raw: PoolProxiedConnection | None = None
        self._seen = -1

    def changed(self) -> bool:
        """Tell whether another connection has committed since the last call; True at the first.

        Raises `StoreUnavailableError` when the file cannot be asked; the next call tries again.
        """
        try:
            version = self._version()
        except sqlite3.Error as error:
            self.close()
            raise StoreUnavailableError(f"the database cannot be used just now: {error}") from error
        changed = version != self._seen
        self._seen = version
        return changed

    def close(self) -> None:
        """Give the connection back; the next look counts as the first."""
        raw, self._raw, self._seen = self._raw, None, -1
        if raw is not None:
            with suppress(sqlite3.Error):
                raw.close()

    def _version(self) -> int:
        if self._raw is None:
            with mapped_errors():
                self._raw = self._engine.raw_connection()
        cursor = self._raw.cursor()
        try:
            cursor.execute("PRAGMA data_version")
            (version,) = cursor.fetchone() or (0,)
        finally:
            cursor.close()
        return int(version)


class LogVersion(DataVersion):
    """See `queues.log.opening.LogWatch`: a file cannot tell anybody; who transmits rings the bell instead."""

    dozes = False
    tellers = ()

    def doze(self) -> bool:
        """Tell that it cannot."""
        return False

    def wake(self) -> None:
        """Do nothing."""
