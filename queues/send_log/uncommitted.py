"""The entries of an open transaction, as the application that wrote them may look at them before the commit."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from queues.destinations import members
from queues.entry_headers import parse
from queues.names import SiteId

#: Runs a statement without parameters in the open transaction of a connection of any driver, and returns its rows.
Read = Callable[[str], Sequence[Sequence[Any]]]

#: The columns of `UncommittedRow`, in its order.
COLUMNS = "client, tag_set, destinations, payload, item_key, partition_key, headers"


def text_of(value: str | bytes) -> str:
    """Return a text of the database; some connections of sqlite3 give texts as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _text_or_none(value: str | bytes | None) -> str | None:
    return None if value is None else text_of(value)


class UncommittedRow(NamedTuple):
    """A stored entry; `destinations` is None where only the number `tag_set` names the set, `headers` are JSON.

    For texts as bytes, see `text_of`.
    """

    client: str | bytes
    tag_set: int
    destinations: str | bytes | None
    payload: bytes
    item_key: str | bytes | None
    partition_key: str | bytes | None
    headers: str | bytes | None


class UncommittedEntry(NamedTuple):
    """An entry with its destinations, sorted, and its headers, by name."""

    client: str
    destinations: tuple[SiteId, ...]
    payload: bytes
    item_key: str | None
    partition_key: str | None
    headers: Mapping[str, str]


def with_destinations(read: Read, rows: Sequence[UncommittedRow]) -> list[UncommittedEntry]:
    """Return the entries of *rows* in their order; the dictionary of sets names destinations that rows lack."""
    shared = _sets(read, {row.tag_set for row in rows if row.destinations is None})
    return [
        UncommittedEntry(
            text_of(row.client),
            members(text_of(shared[row.tag_set] if row.destinations is None else row.destinations)),
            bytes(row.payload),
            _text_or_none(row.item_key),
            _text_or_none(row.partition_key),
            parse(text_of(row.headers)) if row.headers else {},
        )
        for row in rows
    ]


def _sets(read: Read, numbers: Collection[int]) -> Mapping[int, str | bytes]:
    if not numbers:
        return {}
    listed = ", ".join(map(str, map(int, numbers)))
    found = read(f"SELECT number, destinations FROM lrq_tag_sets WHERE number IN ({listed})")  # noqa: S608 - integers
    return {row[0]: row[1] for row in found}
