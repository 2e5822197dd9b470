"""Find the transactions that keep trim from PostgreSQL's tables of the log."""

from typing import Final

from sqlalchemy import Connection, text

from queues.database.tables.log import PARTITIONS
from queues.send_log.trim_blockers import TrimBlocker

_SECONDS: Final = 300
#: The age in transactions that counts where the role may not see times.
_TRANSACTIONS: Final = 100_000
_MOST: Final = 5


def trim_blockers(connection: Connection) -> list[TrimBlocker]:
    """Return the oldest transactions that have used tables of the log for five minutes or more; at most five."""
    bounds = {"last": PARTITIONS - 1, "seconds": _SECONDS, "transactions": _TRANSACTIONS, "most": _MOST}
    return [TrimBlocker(*row) for row in connection.execute(_BLOCKERS, bounds)]


# Each lock of a table excludes TRUNCATE, so its mode does not matter. A prepared transaction has no process.
_BLOCKERS: Final = text(r"""
    WITH used AS (
      SELECT DISTINCT l.pid, l.virtualtransaction
      FROM pg_locks l
      JOIN generate_series(0, :last) n ON l.relation IN
        (to_regclass('lrq_log_entries_' || n), to_regclass('lrq_log_commits_' || n))
      WHERE l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ), found AS (
      SELECT 'process ' || a.pid || coalesce(' (' || nullif(a.application_name, '') || ')', '') AS name,
        'SELECT pg_terminate_backend(' || a.pid || ')' AS ending,
        extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds,
        age(coalesce(a.backend_xmin, a.backend_xid)) AS transactions
      FROM used JOIN pg_stat_activity a ON a.pid = used.pid
      UNION ALL
      SELECT 'the prepared transaction ' || quote_literal(p.gid),
        'COMMIT PREPARED ' || quote_literal(p.gid) || ', or ROLLBACK PREPARED',
        extract(epoch FROM clock_timestamp() - p.prepared)::float8, age(p.transaction)
      FROM used
      JOIN pg_locks own ON own.virtualtransaction = used.virtualtransaction AND own.locktype = 'transactionid'
      JOIN pg_prepared_xacts p ON p.transaction = own.transactionid
      WHERE used.pid IS NULL AND own.pid IS NULL
    )
    SELECT name, ending, seconds FROM found
    WHERE seconds >= :seconds OR (seconds IS NULL AND transactions >= :transactions)
    ORDER BY seconds DESC NULLS LAST, name LIMIT :most
""")
