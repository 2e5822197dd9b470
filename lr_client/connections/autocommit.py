"""The error for a connection that commits every statement by itself."""

from queues.errors import NotInTransactionError


def not_in_transaction(cure: str) -> NotInTransactionError:
    """Return the error; *cure* says how to open a transaction with the connection's own library."""
    return NotInTransactionError(
        f"transmit needs a transaction, but this connection commits every statement by itself: {cure}"
    )
