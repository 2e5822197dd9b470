"""The rows of an open transaction on PostgreSQL, which each row names by the transaction's id."""

from sqlalchemy import Connection

from queues.send_log.uncommitted import COLUMNS, UncommittedRow

# Without "if assigned", a transaction that only reads would get an id. Savepoints share the id of their transaction.
_OWN = (
    f"SELECT {COLUMNS} FROM lrq_log_entries "  # noqa: S608 - constants
    "WHERE xid = pg_current_xact_id_if_assigned()::text::bigint ORDER BY id"
)


def uncommitted_rows(connection: Connection) -> list[UncommittedRow]:
    """Return the rows of the connection's transaction, in the order of their writing."""
    return [UncommittedRow(*row) for row in connection.exec_driver_sql(_OWN)]
