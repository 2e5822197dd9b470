"""The rows of an open transaction on SQLite: those with ids above the highest committed one.

There is one writer at a time. So all ids that only one connection sees belong to its transaction. Savepoints make no
difference, nor does the program that wrote the rows.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from queues.database.tables.log import PARTITIONS
from queues.errors import StoreUnavailableError, first_line
from queues.send_log.uncommitted import COLUMNS, Read, UncommittedRow, text_of

_FILE = "SELECT file FROM pragma_database_list WHERE name = 'main'"
_FROM = (
    f"SELECT {COLUMNS} FROM ("  # noqa: S608 - constants
    + " UNION ALL ".join(
        f"SELECT id, {COLUMNS} FROM lrq_log_entries_{partition} WHERE id >= {{first}}"  # noqa: S608 - constants
        for partition in range(PARTITIONS)
    )
    + ") ORDER BY id"
)


def uncommitted_rows(read: Read, first_id: int) -> list[UncommittedRow]:
    """Return the rows of the open transaction, in the order of their writing.

    A database in memory has no second connection to ask, so there the rows begin with *first_id*. Raises
    `StoreUnavailableError` if another connection cannot read the file.
    """
    file = text_of(read(_FILE)[0][0] or "")
    first = _committed_id(file) + 1 if file else first_id
    return [UncommittedRow(*row) for row in read(_FROM.format(first=first))]


def _committed_id(file: str) -> int:
    """Return the highest committed id, which a second connection to *file* sees."""
    try:
        with closing(_second(file)) as other:
            found = other.execute("SELECT last_id FROM lrq_log_head").fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):  # created in the same transaction
            return 0
        raise StoreUnavailableError(
            f"the committed entries of {file} cannot be read beside the transaction: {first_line(error)}"
        ) from error
    return int(found[0]) if found else 0


def last_is_committed(file: str, key: str) -> bool:
    """Return whether the last entry of the view `lrq_transmit` is committed, and its key begins with *key*.

    Return False for a database in memory, and where another connection cannot read the file beside the transaction.
    """
    if not file:
        return False
    try:
        with closing(_second(file, timeout=0)) as other:
            found = other.execute("SELECT transaction_key FROM lrq_sql_written").fetchone()
    except sqlite3.OperationalError:
        return False
    return found is not None and str(found[0]).startswith(key)


def _second(file: str, timeout: float = 5.0) -> sqlite3.Connection:
    return sqlite3.connect(f"{Path(file).absolute().as_uri()}?mode=ro", uri=True, timeout=timeout)
