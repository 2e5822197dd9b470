"""Rewrite small tables with frequent updates before the old versions of their rows pile up.

While any snapshot is open, PostgreSQL keeps all old versions, and they slow each update down. TRUNCATE removes all
versions. An older snapshot sees a truncated table empty. So a transaction with one snapshot first locks these tables:
see `queues.database.transactions.keep_rewritten`. Tables of `REWRITTEN_UNKEPT` need no lock, because only transactions
without such a snapshot read them.
"""

from typing import Final

from sqlalchemy import Connection, insert, select

from queues.database.postgresql.truncation import lock
from queues.database.tables.rewritten import REWRITTEN, REWRITTEN_UNKEPT

_ALL: Final = (*REWRITTEN, *REWRITTEN_UNKEPT)
#: In bytes: a table up to `_SMALL` plus `_LARGEST_ROW` for each row is not rewritten. Rows are always smaller.
_SMALL: Final = 32 * 1024
_LARGEST_ROW: Final = 4 * 1024
#: How long the lock may wait for a table in use, and make others wait behind it, in milliseconds.
_PATIENCE: Final = 20
#: Selects the size and the number of rows of each table, in one statement, because a quiet server asks often.
SIZES: Final = " UNION ALL ".join(
    f"SELECT pg_relation_size('{table.name}'), count(*) FROM {table.name}"  # noqa: S608 - constants
    for table in _ALL
)


def is_bloated(size: int, rows: int) -> bool:
    """Tell whether a table of *size* bytes with *rows* rows consists mostly of old row versions. Pure."""
    return size > _SMALL + rows * _LARGEST_ROW


def rewrite(connection: Connection) -> bool:
    """Rewrite all these tables if one is bloated; return whether. Raises `BusyError` if one is in use."""
    if not any(is_bloated(size, rows) for size, rows in connection.exec_driver_sql(SIZES)):
        return False
    lock(connection, *(table.name for table in _ALL), wait_ms=_PATIENCE)
    for table in _ALL:
        rows = [dict(row) for row in connection.execute(select(table)).mappings()]
        connection.exec_driver_sql(f"TRUNCATE {table.name}")
        if rows:
            connection.execute(insert(table), rows)
    return True
