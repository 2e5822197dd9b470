"""The statements that write entries through SQLite's view `lrq_transmit`, for drivers other than SQLAlchemy's. Pure.

The view needs a key to know the entries of one source transaction, because SQLite has no transaction ids. Drivers do not
tell whether a transaction has begun since the last call. So calls on one connection share a key while nothing else is
written and no tick is taken. Up to `JOINED` entries of several transactions may thus be delivered as one transaction.
"""

from collections.abc import Sequence
from typing import Final

from queues.names import ClientName
from queues.send_log.call_limits import require_callable
from queues.send_log.outbox import NewEntry

#: Calls share a key until their transaction has so many entries; all entries of one call always share it.
JOINED: Final = 1_000
_ANY_NUMBER: Final = 2**62

_INSERT: Final = (
    "INSERT INTO lrq_transmit (client, payload, destinations, item_key, partition_key, headers, transaction_key)"
    " VALUES ({0}, {0}, {0}, {0}, {0}, {0}, coalesce((SELECT transaction_key FROM lrq_sql_written"
    " WHERE substr(transaction_key, 1, length({0})) = {0} AND last_id - transaction_id < {0}), {0}))"
)
#: Selects the token of the present transaction, after its entries; the one row has one text.
TOKEN: Final = "SELECT token FROM lrq_transmitted"


def transmit_rows(
    client: ClientName, entries: Sequence[NewEntry], mark: str, *, owner: str, call: str, begun: bool
) -> tuple[str, list[tuple[object, ...]]]:
    """Return the statement that writes one entry, and its values for each of *entries*.

    *mark* is the driver's mark of a parameter. *owner* is a text of the connection, *call* one of this call alone.
    *begun*: the connection was inside a transaction before the call. Raises `PayloadTooLargeError` for a payload that
    the view would refuse.
    """
    require_callable(entries)
    fresh = f"{owner} {call}"
    # A key with this beginning is shared. Outside of a transaction no earlier key has it.
    shared = f"{owner} " if begun else fresh
    rows: list[tuple[object, ...]] = [
        (
            client,
            entry.payload,
            entry.destinations.text,
            entry.item_key,
            entry.partition_key,
            entry.headers,
            shared,
            shared,
            _ANY_NUMBER if index else JOINED,
            fresh,
        )
        for index, entry in enumerate(entries)
    ]
    return _INSERT.format(mark), rows
