"""Noticing on SQLite that something was committed, without looking at any table."""

from sqlalchemy import Engine

from queues.transactions import mapped_errors


class DataVersion:
    """Tells whether anything was committed to the file since the last look (2.5 µs), without a transaction."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        with mapped_errors():
            self._raw = engine.raw_connection()
        self._seen = -1

    def changed(self) -> bool:
        """Tell whether another connection has committed since the last call; True at the first."""
        cursor = self._raw.cursor()
        try:
            cursor.execute("PRAGMA data_version")
            (version,) = cursor.fetchone() or (0,)
        finally:
            cursor.close()
        changed = version != self._seen
        self._seen = version
        return changed

    def close(self) -> None:
        """Give the connection back."""
        self._raw.close()


class LogVersion(DataVersion):
    """See `queues.log.opening.LogWatch`: a file cannot tell anybody; who transmits rings the bell instead."""

    dozes = False
    tellers = ()

    def doze(self) -> bool:
        """Tell that it cannot."""
        return False

    def wake(self) -> None:
        """Do nothing."""
