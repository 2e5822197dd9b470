"""Lock tables of PostgreSQL for TRUNCATE, which leaves no dead rows, even while snapshots are open.

See docs/design.md, "Bloat and trim".
"""

from sqlalchemy import Connection, exc


class BusyError(Exception):
    """Another transaction uses a table that is to be truncated."""


def lock(connection: Connection, *tables: str, wait_ms: int = 0, mode: str = "ACCESS EXCLUSIVE") -> None:
    """Lock *tables* until the transaction ends; raise `BusyError` if another transaction uses one of them.

    The lock waits for at most *wait_ms* milliseconds, and others wait behind it. Under the lock there are no
    uncommitted rows, so the next statement sees all rows. The *mode* SHARE lets readers continue.
    """
    try:
        with connection.begin_nested():
            if wait_ms:
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {wait_ms}")
            at_once = "" if wait_ms else " NOWAIT"
            connection.exec_driver_sql(f"LOCK TABLE {', '.join(tables)} IN {mode} MODE{at_once}")
    except exc.OperationalError as error:
        raise BusyError from error
