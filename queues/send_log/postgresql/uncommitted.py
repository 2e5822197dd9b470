"""The rows of an open transaction on PostgreSQL, which each row names by the transaction's id."""

from queues.send_log.uncommitted import COLUMNS, Read, UncommittedRow

# Without "if assigned", a transaction that only reads would get an id. Savepoints share the id of their transaction.
_OWN = (
    f"SELECT {COLUMNS} FROM lrq_log_entries "  # noqa: S608 - constants
    "WHERE xid = pg_current_xact_id_if_assigned()::text::bigint ORDER BY id"
)


def uncommitted_rows(read: Read, first_id: int) -> list[UncommittedRow]:  # noqa: ARG001 - rows name their transaction
    """Return the rows of the open transaction, in the order of their writing."""
    return [UncommittedRow(*row) for row in read(_OWN)]
