"""Emptying tables of PostgreSQL whole: no dead rows stay, whatever snapshot somebody holds (DESIGN 8)."""

from sqlalchemy import Connection, exc


class BusyError(Exception):
    """Somebody holds a lock on what is to be emptied."""


def lock(connection: Connection, *tables: str, wait_ms: int = 0) -> None:
    """Keep everybody out of *tables* until the transaction ends; raise `BusyError` when somebody is in one.

    Others wait behind this for at most *wait_ms* milliseconds. Nobody has an uncommitted row there then, so what the
    next statement sees is all there is.
    """
    try:
        with connection.begin_nested():
            if wait_ms:
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {wait_ms}")
            at_once = "" if wait_ms else " NOWAIT"
            connection.exec_driver_sql(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE{at_once}")
    except exc.OperationalError as error:
        raise BusyError from error
