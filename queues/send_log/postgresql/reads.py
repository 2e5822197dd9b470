"""Read the entries for one session, or for all, from PostgreSQL's send log."""

from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Connection

from queues.database.postgresql.dialect import fetch
from queues.database.postgresql.pipeline import exchange
from queues.positions import Visibility, first_covering
from queues.send_log import reads as sql_log
from queues.send_log.port import LogRow, OwedSize, SessionKey, TickLimits, count_within
from queues.send_log.postgresql.windows import IN_WINDOW, NOTHING, plan, window

#: The bytes of an entry, as `size_of` counts them.
SIZE: Final = "octet_length(payload)" + "".join(
    f" + coalesce(octet_length({name}), 0)" for name in ("headers", "partition_key")
)
# Both tables are searched by transaction id; `+ 0` prevents a search by order. A session's entries are also searched by
# tag set. So the cost depends on the session's entries, not on the size of the log.
_IN_TICKS = f"""
    FROM lrq_log_entries JOIN (
      SELECT xid, commit_seq, committed_us FROM lrq_log_commits WHERE {IN_WINDOW}
      AND commit_seq + 0 > %(after)s AND commit_seq + 0 <= %(upto)s) c USING (xid)
    WHERE {IN_WINDOW}
"""  # noqa: S608 - constants
_COLUMNS = "xid, commit_seq, id, client, tag_set, item_key, committed_us, payload, headers, partition_key, request"
_OWED = f"""
    SELECT {_COLUMNS} {_IN_TICKS} AND tag_set = ANY(ARRAY(
      SELECT tag_set FROM lrq_tag_set_members WHERE client = %(client)s AND destination = %(destination)s))
"""  # noqa: S608 - constants
_OWED_SIZE = f"""
    SELECT count(*), coalesce(sum(size), 0)::bigint, min(committed_us) FROM (
      SELECT length(payload) AS size, committed_us {_IN_TICKS} AND tag_set = ANY(ARRAY(
        SELECT tag_set FROM lrq_tag_set_members WHERE client = %(client)s AND destination = %(destination)s))
      LIMIT %(limit)s) AS owed
"""  # noqa: S608 - constants
_COUNTS = f"SELECT commit_seq, count(*) {_IN_TICKS} GROUP BY commit_seq"
_ALL = f"SELECT {_COLUMNS} {_IN_TICKS}"
# `+ 0` prevents a walk over all transaction ids until one matches.
_REACH = """
    SELECT min(xid + 0), max(xid + 0) FROM lrq_log_commits
    WHERE commit_seq > %(after)s AND commit_seq <= %(upto)s AND xid + 0 BETWEEN %(first)s AND %(last)s
"""
# The rows of one transaction, read in order without sorting; `+ 0` prevents a search by tag set.
_OF_SESSION = """
    FROM lrq_log_entries WHERE xid = %(xid)s AND id > %(after_id)s AND tag_set + 0 = ANY(ARRAY(
      SELECT tag_set FROM lrq_tag_set_members WHERE client = %(client)s AND destination = %(destination)s))
"""
_PIECE = f"""
    SELECT xid, %(order)s::bigint, id, client, tag_set, item_key, %(committed_us)s::bigint, payload, headers,
      partition_key {_OF_SESSION} ORDER BY xid, id LIMIT %(piece)s OFFSET %(skip)s
"""
_LAST_IDS = f"""
    SELECT item_key, max(id) {_OF_SESSION} AND item_key IS NOT NULL
    GROUP BY item_key HAVING count(*) > 1 ORDER BY count(*) DESC, max(id) LIMIT %(most)s
"""
_KEYS = f"SELECT id, item_key {_OF_SESSION} ORDER BY xid, id LIMIT %(piece)s"
_WHOLE_SIZES = f"""
    SELECT id, {SIZE} FROM lrq_log_entries WHERE xid = %(xid)s AND id > %(after_id)s
    ORDER BY xid, id LIMIT %(piece)s
"""  # noqa: S608 - constants
_WHOLE_PIECE = """
    SELECT xid, %(order)s::bigint, id, client, tag_set, item_key, %(committed_us)s::bigint, payload, headers,
      partition_key
    FROM lrq_log_entries WHERE xid = %(xid)s AND id > %(after_id)s AND id <= %(upto_id)s ORDER BY xid, id
"""
# Each read needs a new plan, because a cached plan from an empty segment would scan the whole segment.
_READ_PLAN = plan("enable_nestloop") + ", set_config('plan_cache_mode', 'force_custom_plan', true)"
_PIECE_PLAN = plan("enable_sort", "enable_bitmapscan")
_END: Final = 2**63 - 1
#: The most spans of one message.
_SPANS_AT_ONCE: Final = 64


def read(
    connection: Connection, owed: SessionKey, before: Visibility, marks: Sequence[Visibility]
) -> list[list[LogRow]]:
    """Return the rows of each tick, in order; *marks* are the ticks' visibilities, *before* the one before them."""
    return [[LogRow(*row) for row in group] for group in _read(connection, _OWED, owed._asdict(), before, marks)]


def read_all(connection: Connection, before: Visibility, marks: Sequence[Visibility]) -> list[list[LogRow]]:
    """Like `read`, for all clients and destinations."""
    return [[LogRow(*row) for row in group] for group in _read(connection, _ALL, {}, before, marks)]


def _read(
    connection: Connection, wanted: str, values: dict[str, Any], before: Visibility, marks: Sequence[Visibility]
) -> list[list[tuple[Any, ...]]]:
    groups: list[list[tuple[Any, ...]]] = [[] for _ in marks]
    for begin, end in _runs(before, marks):
        previous = marks[begin - 1] if begin else before
        bounds = _narrowed(connection, values | _bounds(previous, marks[end - 1]))
        for row in fetch(connection, wanted, bounds):
            index = first_covering(marks[begin:end], row[0], row[1])
            if index is not None:
                groups[begin + index].append(row)
    for group in groups:
        group.sort(key=_ORDER)
    return groups


def commits_within(
    connection: Connection, spans: Sequence[tuple[Visibility, Visibility]]
) -> list[Sequence[tuple[int, int]]]:
    """Return the place in the order of commits and the number of entries of each transaction of some ticks.

    A span has the visibility of the tick before, and that of the tick.
    """
    connection.exec_driver_sql(_READ_PLAN)
    asked = [(_COUNTS, _reached(connection, _bounds(before, mark))) for before, mark in spans]
    parts = (asked[begin : begin + _SPANS_AT_ONCE] for begin in range(0, len(asked), _SPANS_AT_ONCE))
    return [answer.rows for part in parts for answer in exchange(connection, part)]


def transaction(connection: Connection, mark: Visibility) -> dict[str, Any] | None:
    """Find the only transaction of a large tick; None if its commit is missing."""
    statement = "SELECT xid, commit_seq, committed_us FROM lrq_log_commits WHERE commit_seq = %s"
    found = connection.exec_driver_sql(statement, (mark.upto,)).first()
    return None if found is None else {"xid": found.xid, "order": found.commit_seq, "committed_us": found.committed_us}


def read_piece(
    connection: Connection, owed: SessionKey, of: dict[str, Any], after_id: int, skip: int, limits: TickLimits
) -> list[LogRow]:
    """Return rows of one `transaction` within *limits*, at least one, after an id and *skip* further rows."""
    connection.exec_driver_sql(_PIECE_PLAN)
    wanted = {"client": owed.client, "destination": owed.destination, "after_id": after_id, "skip": skip}
    return sql_log.fill(connection, _PIECE, of | wanted | {"piece": limits.rows}, limits)


def last_ids(connection: Connection, owed: SessionKey, of: dict[str, Any], most: int) -> dict[str, int]:
    """Return the last id of each item with several entries in one `transaction`, for the *most* repeated items."""
    return dict(fetch(connection, _LAST_IDS, of | owed._asdict() | {"after_id": 0, "most": most}))


def read_keys(
    connection: Connection, owed: SessionKey, of: dict[str, Any], after_id: int, limits: TickLimits
) -> Sequence[tuple[int, str | None]]:
    """Return ids and item keys of the next rows of one `transaction` after an id."""
    connection.exec_driver_sql(_PIECE_PLAN)
    values = of | owed._asdict() | {"after_id": after_id, "piece": limits.rows}
    return [(entry_id, item_key) for entry_id, item_key in fetch(connection, _KEYS, values)]


def read_whole_piece(connection: Connection, after_id: int, of: dict[str, Any], limits: TickLimits) -> list[LogRow]:
    """Return the rows of one `transaction` after an id, for all destinations, within *limits*, at least one."""
    connection.exec_driver_sql(_PIECE_PLAN)
    values = of | {"after_id": after_id, "piece": limits.rows}
    # Reading the sizes first avoids reading payloads beyond the limits.
    sizes = fetch(connection, _WHOLE_SIZES, values)
    taken = count_within([size for _, size in sizes], limits)
    if not taken:
        return []
    return [LogRow(*row) for row in fetch(connection, _WHOLE_PIECE, values | {"upto_id": sizes[taken - 1][0]})]


def owes(connection: Connection, owed: SessionKey, after: Visibility | None, upto: Visibility) -> bool:
    """Tell whether the log has entries for a session after the visibility *after*, up to *upto*."""
    bounds = owed._asdict() | _bounds(after or Visibility(window=NOTHING), upto)
    return connection.exec_driver_sql(f"SELECT 1 FROM ({_OWED}) AS owed LIMIT 1", bounds).first() is not None  # noqa: S608


def count_owed(connection: Connection, owed: SessionKey, after: Visibility | None, upto: Visibility) -> int:
    """Count the entries for a session after the visibility *after*, up to *upto*."""
    bounds = owed._asdict() | _bounds(after or Visibility(window=NOTHING), upto)
    return int(connection.exec_driver_sql(f"SELECT count(*) FROM ({_OWED}) AS owed", bounds).scalar_one())  # noqa: S608


def measure(connection: Connection) -> OwedSize:
    """Return the measure of entries for a transaction; sets the planner for its reads."""
    connection.exec_driver_sql(_READ_PLAN)
    return partial(_owed_size, connection)


def _owed_size(
    connection: Connection, owed: SessionKey, after: Visibility | None, upto: Visibility, limit: int
) -> tuple[int, int, int | None]:
    spans = [(after or Visibility(window=NOTHING), upto)]
    if after is not None and after.upto is not None and after.window != upto.window:
        # The tick closed only a part of its window: the rest of that window is a span of its own.
        rest = Visibility(window=after.window)
        spans = [(after, rest), (rest, upto)]
    number, size, oldest = 0, 0, None
    for begin, end in spans:
        bounds = _reached(connection, owed._asdict() | _bounds(begin, end))
        ((found, more, first),) = fetch(connection, _OWED_SIZE, bounds | {"limit": limit - number})
        number, size, oldest = number + found, size + more, first if oldest is None else oldest
    return number, size, oldest


def _bounds(previous: Visibility, last: Visibility) -> dict[str, Any]:
    """Return the bounds of the entries that `last` covers and `previous` does not; both are of one run."""
    in_part = previous.upto is not None and previous.window == last.window
    lo = (previous.base if in_part else previous.window) or NOTHING
    return window(lo, last.window or NOTHING) | {
        "after": previous.upto if in_part else 0,
        "upto": _END if last.upto is None else last.upto,
    }


def _narrowed(connection: Connection, bounds: dict[str, Any]) -> dict[str, Any]:
    """Set the planner for a read, and return the bounds of the read as `_reached` does."""
    connection.exec_driver_sql(_READ_PLAN)
    return _reached(connection, bounds)


def _reached(connection: Connection, bounds: dict[str, Any]) -> dict[str, Any]:
    """Narrow the bounds of a part of a window, because the window may be the whole log."""
    if bounds["after"] == 0 and bounds["upto"] == _END:
        return bounds
    first, last = connection.exec_driver_sql(_REACH, bounds).one()
    return bounds | ({"first": 1, "last": 0} if first is None else {"first": first, "last": last})


def _runs(before: Visibility, marks: Sequence[Visibility]) -> Iterator[tuple[int, int]]:
    """Divide ticks into runs that one pair of bounds describes: parts of one window, or whole windows.

    The last part of a window may look like an earlier one: no tick follows for an empty rest.
    """
    begin = 0
    previous = before
    for index, mark in enumerate(marks, 1):
        in_part = mark.upto is not None or (previous.upto is not None and previous.window == mark.window)
        following = marks[index] if index < len(marks) else None
        if following is None or (following.window != mark.window if in_part else following.upto is not None):
            yield begin, index
            begin = index
        previous = mark


#: By place in the order of commits, then by id.
_ORDER: Final = itemgetter(1, 2)
