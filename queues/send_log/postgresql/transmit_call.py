"""The statements that call PostgreSQL's function `lrq_transmit`, for drivers without a faster way. Pure."""

from collections.abc import Callable, Sequence
from typing import Final

from queues.database.left_out import left_out
from queues.database.tables.log import log_entries
from queues.errors import SetupError
from queues.names import ClientName
from queues.positions import PositionToken
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
# `unnest` keeps the order, and the aggregates call the function in that order. All calls of a transaction return one
# token. A call returns NULL if its entry was left out, and so does this statement.
_MANY: Final = (
    "SELECT CASE WHEN count(t.token) = count(*) THEN max(t.token) END FROM ("
    "SELECT lrq_transmit(CAST({} AS text), n.payload, string_to_array(n.destinations, ','),"
    " n.item_key, n.partition_key, CAST(n.headers AS jsonb)) AS token"
    " FROM unnest(CAST({} AS bytea[]), CAST({} AS text[]), CAST({} AS text[]), CAST({} AS text[]), CAST({} AS text[]))"
    " AS n (payload, destinations, item_key, partition_key, headers)) AS t"
)
_PARAMETERS: Final = 6


def transmit_call(client: ClientName, entries: Sequence[NewEntry], mark: Mark) -> tuple[str, tuple[object, ...]]:
    """Return the statement that writes *entries* in their order, and its values; its one value is for `token_of`.

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


def token_of(value: object) -> PositionToken:
    """Return the token that the statement has returned; raise `SetupError` if a trigger of others left entries out."""
    if value is None:
        raise SetupError(left_out(log_entries.name))
    return PositionToken.parse(str(value))
