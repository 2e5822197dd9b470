"""The statements that call PostgreSQL's function `lrq_transmit`, for drivers without a faster way. Pure."""

from collections.abc import Callable, Sequence
from typing import Final

from queues.names import ClientName
from queues.send_log.call_limits import require_callable
from queues.send_log.outbox import NewEntry

#: Returns the driver's mark for the parameter of a number, from 1: `%s`, `$1`, `:p1`.
Mark = Callable[[int], str]

# Each parameter is a text, bytes or a list of them, so every driver's usual conversion serves. Headers are passed as
# text, because applications often give their driver another conversion of jsonb. A list of sites would need a list of
# lists for several entries.
_ONE: Final = (
    "SELECT lrq_transmit(CAST({} AS text), CAST({} AS bytea), string_to_array(CAST({} AS text), ','),"
    " CAST({} AS text), CAST({} AS text), CAST(CAST({} AS text) AS jsonb))"
)
# `unnest` keeps the order, and the aggregate calls the function in that order. All calls of a transaction return one
# token.
_MANY: Final = (
    "SELECT max(t.token) FROM ("
    "SELECT lrq_transmit(CAST({} AS text), n.payload, string_to_array(n.destinations, ','),"
    " n.item_key, n.partition_key, CAST(n.headers AS jsonb)) AS token"
    " FROM unnest(CAST({} AS bytea[]), CAST({} AS text[]), CAST({} AS text[]), CAST({} AS text[]), CAST({} AS text[]))"
    " AS n (payload, destinations, item_key, partition_key, headers)) AS t"
)
_PARAMETERS: Final = 6


def transmit_call(client: ClientName, entries: Sequence[NewEntry], mark: Mark) -> tuple[str, tuple[object, ...]]:
    """Return the statement that writes *entries* in their order, and its values; it returns one token.

    Raises `PayloadTooLargeError` for a payload that the function would refuse.
    """
    require_callable(entries)
    marks = [mark(number) for number in range(1, _PARAMETERS + 1)]
    if len(entries) == 1:
        only = entries[0]
        keys = only.item_key, only.partition_key
        return _ONE.format(*marks), (client, only.payload, only.destinations.text, *keys, only.headers)
    columns = (
        [entry.payload for entry in entries],
        [entry.destinations.text for entry in entries],
        [entry.item_key for entry in entries],
        [entry.partition_key for entry in entries],
        [entry.headers for entry in entries],
    )
    return _MANY.format(*marks), (client, *columns)
