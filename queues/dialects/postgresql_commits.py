"""Noticing on PostgreSQL that something was committed, without looking at any table."""

from contextlib import suppress

from sqlalchemy import Connection, Engine

from queues.transactions import mapped_errors


class SnapshotWatch:
    """Tells whether anything has become visible since the last look: one round trip, and no transaction."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._seen = ""

    def changed(self) -> bool:
        """Tell whether what is visible may be more than at the last call; True at the first.

        Raises `StoreUnavailableError` when the database cannot be asked; the next call tries again.
        """
        try:
            with mapped_errors():
                # Two snapshots that read the same show the same.
                now = str(self._open().exec_driver_sql("SELECT pg_current_snapshot()::text").scalar_one())
        except BaseException:
            self.close()
            raise
        changed = now != self._seen
        self._seen = now
        return changed

    def close(self) -> None:
        """Give the connection back; the next look counts as the first."""
        connection, self._connection, self._seen = self._connection, None, ""
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _open(self) -> Connection:
        if self._connection is None:
            # Of its own: what the pool has is for those who come and go.
            connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            connection.detach()
            self._connection = connection
        return self._connection
