"""Notice new commits on SQLite without reading a table."""

import sqlite3
from contextlib import suppress

from sqlalchemy import Engine, PoolProxiedConnection

from queues.database.connect_problems import problem
from queues.database.transactions import mapped_errors
from queues.errors import StoreUnavailableError


class DataVersion:
    """Tells whether the file has new commits since the last look (2.5 µs), without a transaction."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._raw: PoolProxiedConnection | None = None
        self._seen = -1

    def changed(self) -> bool:
        """Return whether another connection has committed since the last call; True at the first call.

        Raises `StoreUnavailableError` if the file cannot be read; the next call tries again.
        """
        try:
            version = self._version()
        except sqlite3.Error as error:
            self.close()
            words = problem(str(error), self._engine.url) or f"the database cannot be used just now: {error}"
            raise StoreUnavailableError(words) from error
        changed = version != self._seen
        self._seen = version
        return changed

    def close(self) -> None:
        """Close the connection; the next call of `changed` counts as the first."""
        raw, self._raw, self._seen = self._raw, None, -1
        if raw is not None:
            with suppress(sqlite3.Error):
                raw.close()

    def _version(self) -> int:
        if self._raw is None:
            with mapped_errors():
                self._raw = self._engine.raw_connection()
                # The pool's connections are for short use.
                self._raw.detach()
        cursor = self._raw.cursor()
        try:
            cursor.execute("PRAGMA data_version")
            (version,) = cursor.fetchone() or (0,)
        finally:
            cursor.close()
        return int(version)


class LogVersion(DataVersion):
    """See `queues.send_log.opening.LogWatch`; SQLite has no notifications, so senders use `queues.send_log.wakeup`."""

    is_notified = False
    notifiers = ()

    def wait_for_notify(self) -> bool:
        """Return False: SQLite has no notifications."""
        return False

    def end_notify(self) -> None:
        """Do nothing: SQLite has no notifications."""
