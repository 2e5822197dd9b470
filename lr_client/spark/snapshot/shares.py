"""Divide the rows of a table into shares, one for each of Spark's tasks. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from queues.database.cuts_port import StoredTable


@dataclass(frozen=True, slots=True)
class Piece:
    """The rows of one stored table from place `low` to before place `high`; None is an open end."""

    table: StoredTable
    low: int | None = None
    high: int | None = None


def shares_of(tables: Sequence[StoredTable], most: int) -> list[list[Piece]]:
    """Divide the rows of *tables* into at most *most* shares with about equally many places.

    Each row is in exactly one share. The first and the last piece of a table are open, so a table with no places
    is read too. A table that cannot be divided is in one share as a whole.
    """
    placed = [(table, table.extent) for table in tables if table.extent is not None]
    whole = [table for table in tables if table.extent is None]
    places = sum(high - low for _, (low, high) in placed)
    count = max(1, min(most, places + len(whole)))
    shares: list[list[Piece]] = [[] for _ in range(count)]
    for number, table in enumerate(whole):
        shares[number % count].append(Piece(table))
    dividing = max(1, min(count, places))
    edges = [places * number // dividing for number in range(1, dividing)]
    start = 0
    for table, (low, high) in placed:
        end = start + high - low
        inner = [low + edge - start for edge in edges if start < edge < end]
        first = count - dividing + bisect_right(edges, start)
        for number, ends in enumerate(pairwise([None, *inner, None]), first):
            shares[number].append(Piece(table, *ends))
        start = end
    return [share for share in shares if share]
