"""The tables that clients follow by `lrq_follow`, and their rows."""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple


class FollowArguments(NamedTuple):
    """The arguments of `lrq follow`: either `sites`, or a column of each row that names them."""

    table: str
    client: str
    sites: tuple[str, ...]
    sites_column: str | None
    origin: str


class FollowedTable(NamedTuple):
    """A followed table, with the client and the other arguments of `lrq_follow`.

    `destinations` is empty if a column of each row names them. With `has_changed`, the table has another name or other
    columns since then. The triggers then refuse each change of a row. PostgreSQL's triggers never do.
    """

    table: str
    client: str
    destinations: tuple[str, ...]
    origin: str
    has_changed: bool = False


def parents_first(tables: Sequence[str], references: Iterable[tuple[str, str]]) -> list[str]:
    """Return *tables* with each parent before its children, else in their own order. Pure.

    *references* are pairs of a child and its parent. Tables that refer to each other in a circle keep their order.
    """
    place = {table: number for number, table in enumerate(tables)}
    parents: dict[str, set[str]] = {table: set() for table in tables}
    for child, parent in references:
        if child in place and parent in place and child != parent:
            parents[child].add(parent)
    sorter = TopologicalSorter(parents)
    try:
        sorter.prepare()
    except CycleError:
        return list(tables)
    found: list[str] = []
    while ready := sorter.get_ready():
        found += sorted(ready, key=place.__getitem__)
        sorter.done(*ready)
    return found


class FollowedRows(NamedTuple):
    """A query of one followed table, as for `sqlalchemy.text`.

    The only column `entry` has a row's JSON, in the bytes of the insert that the trigger would send.
    """

    query: str
    parameters: Mapping[str, str]
