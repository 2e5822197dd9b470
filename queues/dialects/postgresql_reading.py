"""Reads from PostgreSQL's log-entry queue what one session is owed, found by transaction."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from queues.dialects.postgresql import fetch
from queues.dialects.postgresql_windows import IN_WINDOW, NOTHING, plan, window
from queues.log import sql as sql_log
from queues.log.port import Limits, LogRow, Owed
from queues.positions import Mark, first_covering

# Both sides are found by transaction (`+ 0`: never by order), the entries by tag set too: a session pays for what it is
# owed and not for what there is.
_OWED = f"""
    SELECT xid, commit_seq, id, client, tag_set, item_key, committed_us, payload
    FROM lrq_log_entries JOIN (
      SELECT xid, commit_seq, committed_us FROM lrq_log_commits WHERE {IN_WINDOW}
      AND commit_seq + 0 > %(after)s AND commit_seq + 0 <= %(upto)s) c USING (xid)
    WHERE tag_set = ANY(ARRAY(
      SELECT tag_set FROM lrq_tag_set_members WHERE client = %(client)s AND destination = %(destination)s))
    AND {IN_WINDOW}
"""  # noqa: S608 - constants
# `+ 0`: not by walking along all transactions until one is found.
_REACH = """
    SELECT min(xid + 0), max(xid + 0) FROM lrq_log_commits
    WHERE commit_seq > %(after)s AND commit_seq <= %(upto)s AND xid + 0 BETWEEN %(first)s AND %(last)s
"""
# One transaction in order, without sorting: `+ 0` keeps the planner from finding it by tag set.
_PIECE = """
    SELECT xid, %(order)s::bigint, id, client, tag_set, item_key, %(committed_us)s::bigint, payload
    FROM lrq_log_entries WHERE xid = %(xid)s AND id > %(after_id)s AND tag_set + 0 = ANY(ARRAY(
      SELECT tag_set FROM lrq_tag_set_members WHERE client = %(client)s AND destination = %(destination)s))
    ORDER BY xid, id LIMIT %(piece)s OFFSET %(skip)s
"""
# Planned anew for each read: a plan that was kept from when a segment was empty would read all of it.
_READ_PLAN = plan("enable_nestloop") + ", set_config('plan_cache_mode', 'force_custom_plan', true)"
_PIECE_PLAN = plan("enable_sort", "enable_bitmapscan")
_END: Final = 2**63 - 1


def read(connection: Connection, owed: Owed, before: Mark, marks: Sequence[Mark]) -> list[list[LogRow]]:
    """Return the rows of the ticks with these *marks*, which follow *before* without a gap; those of each in order."""
    groups: list[list[LogRow]] = [[] for _ in marks]
    for begin, end in _runs(before, marks):
        previous = marks[begin - 1] if begin else before
        bounds = _narrowed(connection, _owed(owed, previous, marks[end - 1]))
        for row in fetch(connection, _OWED, bounds):
            index = first_covering(marks[begin:end], row[0], row[1])
            if index is not None:
                groups[begin + index].append(LogRow(*row))
    for group in groups:
        group.sort(key=_in_order)
    return groups


def transaction(connection: Connection, mark: Mark) -> dict[str, Any] | None:
    """Identify the one transaction of a large tick; None when it is not there (any more)."""
    statement = "SELECT xid, commit_seq, committed_us FROM lrq_log_commits WHERE commit_seq = %s"
    found = connection.exec_driver_sql(statement, (mark.upto,)).first()
    return None if found is None else {"xid": found.xid, "order": found.commit_seq, "committed_us": found.committed_us}


def read_piece(
    connection: Connection, owed: Owed, of: dict[str, Any], after_id: int, skip: int, limits: Limits
) -> list[LogRow]:
    """Return rows of one `transaction` within *limits*, but one at least: after an id, and *skip* more."""
    connection.exec_driver_sql(_PIECE_PLAN)
    wanted = {"client": owed.client, "destination": owed.destination, "after_id": after_id, "skip": skip}
    return sql_log.fill(connection, _PIECE, of | wanted | {"piece": limits.rows}, limits)


def owes(connection: Connection, owed: Owed, after: Mark | None, upto: Mark) -> bool:
    """Tell whether there is anything in between for a session."""
    bounds = _owed(owed, after or Mark(window=NOTHING), upto)
    return connection.exec_driver_sql(f"SELECT 1 FROM ({_OWED}) AS owed LIMIT 1", bounds).first() is not None  # noqa: S608


def _owed(owed: Owed, previous: Mark, last: Mark) -> dict[str, Any]:
    """Bound what `last` covers and `previous` does not; both are of one run."""
    in_part = previous.upto is not None and previous.window == last.window
    lo = (previous.base if in_part else previous.window) or NOTHING
    return window(lo, last.window or NOTHING) | {
        "client": owed.client,
        "destination": owed.destination,
        "after": previous.upto if in_part else 0,
        "upto": _END if last.upto is None else last.upto,
    }


def _narrowed(connection: Connection, bounds: dict[str, Any]) -> dict[str, Any]:
    """Bound the transactions of a part of a window more closely: the window may be all that the log holds."""
    connection.exec_driver_sql(_READ_PLAN)
    if bounds["after"] == 0 and bounds["upto"] == _END:
        return bounds
    first, last = connection.exec_driver_sql(_REACH, bounds).one()
    return bounds | ({"first": 1, "last": 0} if first is None else {"first": first, "last": last})


def _runs(before: Mark, marks: Sequence[Mark]) -> Iterator[tuple[int, int]]:
    """Cut ticks into runs that one pair of bounds describes: parts of one window, or whole windows."""
    begin = 0
    previous = before
    for index, mark in enumerate(marks):
        in_part = mark.upto is not None or (previous.upto is not None and previous.window == mark.window)
        last = index + 1 == len(marks)
        next_in_part = not last and marks[index + 1].upto is not None
        if last or (in_part and mark.upto is None) or (not in_part and next_in_part):
            yield begin, index + 1
            begin = index + 1
        previous = mark


def _in_order(row: LogRow) -> tuple[int, int]:
    return row.order, row.id
