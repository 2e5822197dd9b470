"""The waits for locks on PostgreSQL, which has no limit for them by default."""

from collections.abc import Collection
from typing import Any, Final, cast

from sqlalchemy import Connection, text
from sqlalchemy.engine.interfaces import DBAPIConnection

from queues.database.lock_waits import LockWait


class PostgresqlLockWaits:
    """See `queues.database.lock_waits.LockWaits`."""

    def number(self, driver: DBAPIConnection) -> int | None:
        """Return the number of the process that serves the connection."""
        return int(cast("Any", driver).info.backend_pid)

    def lock_waits(self, connection: Connection, numbers: Collection[int]) -> list[LockWait]:
        """Look into the views of the server."""
        return [LockWait(*row) for row in connection.execute(_WAITS, {"numbers": sorted(numbers)})]

    def end_waits(self, connection: Connection, waits: Collection[LockWait]) -> None:
        """End the connections.

        To cancel the statements would be unsafe. The lock may come meanwhile, and a commit wait for standby servers. An
        order to cancel would end that wait, and the commit would look durable.
        """
        connection.execute(_END, {"numbers": [wait.number for wait in waits]})


# Behind a pooler a number may be that of another connection. So the names must be equal too, without their last word.
_OWN: Final = """
    a.pid = ANY(CAST(:numbers AS integer[])) AND a.usename = current_user AND a.datname = current_database()
    AND regexp_replace(a.application_name, ' [a-z]+$', '')
      = regexp_replace(current_setting('application_name'), ' [a-z]+$', '')
"""
_WAITS: Final = text(f"""
    SELECT a.pid, coalesce(min(l.relation::regclass::text), ''), (
      SELECT coalesce(string_agg(h.pid || coalesce(' (' || nullif(h.application_name, '') || ')', ''), ', '), '')
      FROM pg_stat_activity h WHERE h.pid = ANY(pg_blocking_pids(a.pid)))
    FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid AND NOT l.granted
    WHERE {_OWN} GROUP BY a.pid ORDER BY a.pid
""")  # noqa: S608 - constants
_END: Final = text(f"""
    SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
    WHERE {_OWN} AND EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = a.pid AND NOT l.granted)
""")  # noqa: S608 - constants
