"""The limit of payloads that pass through `lrq_transmit` in SQL. Pure."""

from collections.abc import Sequence
from typing import Final

from queues.errors import PayloadTooLargeError
from queues.send_log.outbox import NewEntry

#: Most bytes of a payload, as the function and the view check them; a sender's own limit may be higher.
CALL_BYTES: Final = 16 * 1024 * 1024


def require_callable(entries: Sequence[NewEntry]) -> None:
    """Raise `PayloadTooLargeError` if the database would refuse a payload, which ends a transaction of PostgreSQL."""
    largest = max(len(entry.payload) for entry in entries)
    if largest > CALL_BYTES:
        raise PayloadTooLargeError(largest, CALL_BYTES)
