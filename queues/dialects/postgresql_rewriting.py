"""Small tables whose rows are updated for ever: written anew before the old versions of their rows pile up.

While somebody's snapshot is held PostgreSQL keeps all of them, and each update has to find its way past them. Emptied
whole, a table keeps none. A snapshot from before finds it empty, so who reads these tables at one keeps them as they
are first (`queues.transactions.reading`).
"""

from typing import Final

from sqlalchemy import Connection, insert, select

from queues.dialects.postgresql_emptying import lock
from queues.tables import REWRITTEN

#: A table is left alone up to this size, and so much for each of its rows, in bytes. A row never takes that much.
_SMALL: Final = 32 * 1024
_LARGEST_ROW: Final = 4 * 1024
#: How long others may have to wait because somebody is in a table just now, in milliseconds.
_PATIENCE: Final = 20


def is_bloated(size: int, rows: int) -> bool:
    """Tell whether a table of *size* bytes is mostly old versions of its *rows* rows. Pure."""
    return size > _SMALL + rows * _LARGEST_ROW


def rewrite(connection: Connection) -> bool:
    """Write all of them anew if one is bloated; tell whether one was. Raises `BusyError` while somebody is in one."""
    if not any(is_bloated(*_measure(connection, table.name)) for table in REWRITTEN):
        return False
    lock(connection, *(table.name for table in REWRITTEN), wait_ms=_PATIENCE)
    for table in REWRITTEN:
        rows = [dict(row) for row in connection.execute(select(table)).mappings()]
        connection.exec_driver_sql(f"TRUNCATE {table.name}")
        if rows:
            connection.execute(insert(table), rows)
    return True


def _measure(connection: Connection, table: str) -> tuple[int, int]:
    size, rows = connection.exec_driver_sql(f"SELECT pg_relation_size('{table}'), count(*) FROM {table}").one()  # noqa: S608
    return int(size), int(rows)
