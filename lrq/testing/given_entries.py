"""The entries that a test hands to a listener: short forms become rows as a receive queue has them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from lr_client.arguments import LARGEST_PAYLOAD_BYTES, checked_payload
from lr_client.sender import LRMessageWithDestinations
from lrq.testing.outgoing import Transmitted
from queues.clock import now_us
from queues.entry_headers import checked_headers
from queues.entry_keys import checked_key
from queues.errors import UsageError
from queues.receive.received_rows import ReceivedRow

#: An entry of a test: a payload, (payload, item_key), a mapping with the names of `FIELDS`, or a sender's entry.
Entry = bytes | tuple[bytes, str | None] | Mapping[str, object] | Transmitted | LRMessageWithDestinations

FIELDS: Final = ("payload", "item_key", "partition_key", "headers")


def rows_of(entries: Iterable[Entry], first: int, *, in_snapshot: bool, client: str | None) -> list[ReceivedRow]:
    """Return the rows for *entries*, numbered from *first*: one source transaction, committed now.

    In a snapshot each row is a transaction of its own, without commit time, headers and partition key. Raises
    `UsageError` for any other object, and for a result of `transmitted` that is not of *client*, if given. Raises the
    errors of `transmit_log_entry_message` for a wrong payload or key.
    """
    if isinstance(entries, bytes | bytearray | memoryview | str | Mapping) or not isinstance(entries, Iterable):
        raise UsageError(f"deliver needs a list of entries, not {type(entries).__name__}: write [entry]")
    entries = [*entries]
    for entry in entries:
        if client is not None and isinstance(entry, Transmitted) and entry.client != client:
            raise UsageError(
                f"an entry of client {entry.client!r} does not come to a listener of {client!r}: correct one of both "
                f"names, or write transmitted(session, client={client!r})"
            )
    committed_us = 0 if in_snapshot else now_us()
    rows = [_row(entry, number, first, committed_us) for number, entry in enumerate(entries, start=first)]
    if not in_snapshot:
        return rows
    return [row._replace(transaction_seq=row.seq, headers=None, partition_key=None) for row in rows]


def _row(entry: object, seq: int, transaction_seq: int, committed_us: int) -> ReceivedRow:
    fields = _fields(entry)
    return ReceivedRow(
        seq,
        transaction_seq,
        committed_us,
        checked_key(fields.get("item_key"), "item_key"),
        checked_payload(fields.get("payload"), LARGEST_PAYLOAD_BYTES),
        checked_headers(fields.get("headers")),
        checked_key(fields.get("partition_key"), "partition_key"),
    )


def _fields(entry: object) -> Mapping[str, Any]:
    match entry:
        case Transmitted() | LRMessageWithDestinations():
            return {name: getattr(entry, name) for name in FIELDS}
        case Mapping():
            if unknown := sorted(map(str, set(entry) - {*FIELDS})):
                raise UsageError(f"an entry has no {', '.join(unknown)}: write {', '.join(FIELDS)}")
            return entry
        case (payload, item_key):
            return {"payload": payload, "item_key": item_key}
    return {"payload": entry}
