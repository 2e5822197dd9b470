"""The ticks that cover many transactions of the log, found together."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from sqlalchemy import Connection

from queues.database.postgresql.pipeline import exchange
from queues.positions import Tick, Visibility

_COLUMNS: Final = "number, uid, branch, start_seq, end_seq, bytes_total, is_large, mark, created_us, omits_replaced"
_ENDS: Final = f"""
    (SELECT {_COLUMNS} FROM lrq_ticks WHERE branch = %(branch)s::text ORDER BY number LIMIT 1)
    UNION ALL
    (SELECT {_COLUMNS} FROM lrq_ticks WHERE branch = %(branch)s::text ORDER BY number DESC LIMIT 1)
"""  # noqa: S608 - constants
_FROM: Final = f"""
    SELECT n.at, t.* FROM unnest(%(numbers)s::bigint[]) AS n (at) CROSS JOIN LATERAL (
      SELECT {_COLUMNS} FROM lrq_ticks WHERE branch = %(branch)s::text AND number >= n.at ORDER BY number LIMIT 1) t
"""  # noqa: S608 - constants


class _Known(NamedTuple):
    """A tick with its visibility."""

    tick: Tick
    mark: Visibility


class _Search:
    """The search for the first tick that covers one transaction: `found` does, and none before the number `low`."""

    __slots__ = ("found", "high", "low")

    def __init__(self, low: int, found: Tick) -> None:
        self.low, self.high, self.found = low, found.number, found

    @property
    def middle(self) -> int:
        """The next number to look at."""
        return (self.low + self.high) // 2


def covering_ticks(connection: Connection, branch: str, orders: Mapping[int, int]) -> dict[int, Tick]:
    """Return the first kept tick of *branch* that covers each transaction; those that none covers are missing.

    *orders* has the places of the transactions in the order of commits. Each tick covers all that earlier ones cover.
    So the searches halve the ticks together, and one statement serves all of them.
    """
    ends = [_known(row) for row in exchange(connection, [(_ENDS, {"branch": branch})])[0].rows]
    if not ends:
        return {}
    oldest, newest = ends[0], ends[-1]
    searches = {
        xid: _Search(oldest.tick.number, newest.tick) for xid, order in orders.items() if newest.mark.covers(xid, order)
    }
    while open_ := {xid: search for xid, search in searches.items() if search.low < search.high}:
        ticks = _first_from(connection, branch, {search.middle for search in open_.values()})
        for xid, search in open_.items():
            at = search.middle
            tick, mark = ticks.get(at, newest)
            if mark.covers(xid, orders[xid]):
                search.found, search.high = tick, at
            else:
                search.low = tick.number + 1
    return {xid: search.found for xid, search in searches.items()}


def _first_from(connection: Connection, branch: str, numbers: Iterable[int]) -> dict[int, _Known]:
    """Return the first kept tick from each number on: numbers may have gaps where ticks are trimmed."""
    asked = (_FROM, {"branch": branch, "numbers": sorted(numbers)})
    return {at: _known(row) for at, *row in exchange(connection, [asked])[0].rows}


def _known(row: Iterable[object]) -> _Known:
    tick = Tick(*row)  # type: ignore[arg-type]
    return _Known(tick, Visibility.parse(tick.mark))
