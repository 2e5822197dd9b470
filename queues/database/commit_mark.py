"""A mark in a transaction, to tell later whether other code has committed that transaction.

The mark is a released lease without an owner. So it needs no table of its own, and no status shows it.
"""

from contextlib import closing
from uuid import uuid4

from sqlalchemy import Connection, delete, insert

from queues.database.tables.servers import leases


def leave(connection: Connection) -> str:
    """Leave a mark in the connection's transaction; return its name for the other functions."""
    name = f"mark/{uuid4().hex}"
    connection.execute(insert(leases).values(name=name, owner="", generation=0, expires_us=0))
    return name


def remove(connection: Connection, name: str) -> None:
    """Remove the mark in the transaction that has left it."""
    connection.execute(delete(leases).where(leases.c.name == name))


def was_committed(connection: Connection, name: str) -> bool:
    """Return whether the transaction with the mark was committed; removes a committed mark at once.

    For a transaction that has ended. Asks the driver, because SQLAlchemy's own state may be wrong.
    """
    driver = connection.connection.dbapi_connection
    if driver is None:
        return False
    driver.rollback()
    with closing(driver.cursor()) as cursor:
        # `leave` has chosen the name, so it holds no quote.
        cursor.execute(f"DELETE FROM lrq_leases WHERE name = '{name}'")  # noqa: S608
        found = cursor.rowcount > 0
    driver.commit()
    return found
