"""Emptying tables of PostgreSQL whole: no dead rows stay, whatever snapshot somebody holds (DESIGN 8)."""

from sqlalchemy import Connection, exc


class BusyError(Exception):
    """Somebody holds a lock on what is to be emptied."""


def lock(connection: Connection, *tables: str) -> None:
    """Keep everybody out of *tables* until the transaction ends; raise `BusyError` when somebody is in one.

    Nobody has an uncommitted row there then, so what the next statement sees is all there is.
    """
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE NOWAIT")
    except exc.OperationalError as error:
        raise BusyError from error
