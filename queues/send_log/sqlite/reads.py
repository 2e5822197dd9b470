"""Read the entries for one session, or for all, from SQLite's send log. Ids are unique across its segments."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from sqlalchemy import Connection

from queues.database.tables.log import PARTITIONS
from queues.positions import Tick, Visibility
from queues.send_log import reads as sql_log
from queues.send_log.port import LogRow, OwedSize, SessionKey, TickLimits, count_within
from queues.send_log.replaced import LastIds

_Row = TypeVar("_Row")

COLUMNS: Final = "transaction_id, id, id, client, tag_set, item_key, created_us, payload, headers, partition_key"
#: The bytes of an entry as `size_of` counts them; the length of a text would be in characters.
SIZE: Final = "length(payload)" + "".join(
    f" + coalesce(length(CAST({name} AS BLOB)), 0)" for name in ("headers", "partition_key")
)
_SETS = "SELECT tag_set FROM lrq_tag_set_members WHERE client = ? AND destination = ?"


def everywhere(columns: str, condition: str) -> str:
    """Return a query over all segments, as one queue; each has its own parameters."""
    parts = [
        f"SELECT {columns} FROM lrq_log_entries_{partition} WHERE {condition}"  # noqa: S608 - constants
        for partition in range(PARTITIONS)
    ]
    return " UNION ALL ".join(parts)


_OWED = everywhere(COLUMNS, f"tag_set IN ({_SETS}) AND id > ? AND id <= ?") + " ORDER BY 2"
_ALL = everywhere(COLUMNS, "id > ? AND id <= ?") + " ORDER BY 2"
# The items of a large tick with several entries for one session, the most repeated ones first.
_LAST_IDS = (
    "SELECT item_key, max(id) FROM ("  # noqa: S608 - constants
    + everywhere("item_key, id", f"tag_set IN ({_SETS}) AND id > ? AND id <= ? AND item_key IS NOT NULL")
    + ") GROUP BY item_key HAVING count(*) > 1 ORDER BY count(*) DESC, max(id) LIMIT ?"
)
_KEYS = everywhere("id, item_key", f"tag_set IN ({_SETS}) AND id > ? AND id <= ?") + " ORDER BY 1 LIMIT ?"
_SIZES = everywhere(f"id, {SIZE}", "id > ? AND id <= ?") + " ORDER BY 1 LIMIT ?"
_OWED_SIZE = (
    "SELECT count(*), coalesce(sum(size), 0), min(created_us) FROM (SELECT * FROM ("  # noqa: S608
    + everywhere("length(payload) AS size, created_us", f"tag_set IN ({_SETS}) AND id > ? AND id <= ?")
    + ") LIMIT ?)"
)


def high_before(connection: Connection, tick: Tick) -> int:
    """Return the last id before *tick*; raise `TrimmedError` without the tick before."""
    before = sql_log.mark_before(connection, tick)
    return before.high if before else 0


def read(connection: Connection, owed: SessionKey, ticks: Sequence[Tick]) -> list[list[LogRow]]:
    """Return the rows for a session in each of *ticks* (neighbours, in order)."""
    highs = [Visibility.parse(tick.mark).high for tick in ticks]
    bounds = (owed.client, owed.destination, high_before(connection, ticks[0]), highs[-1])
    found = [LogRow(*row) for row in connection.exec_driver_sql(_OWED, bounds * PARTITIONS)]
    return _by_tick(found, [row.id for row in found], highs)


def read_piece(
    connection: Connection, owed: SessionKey, after: int, high: int, skip: int, limits: TickLimits
) -> list[LogRow]:
    """Return the next rows for a session, up to the id *high* and within *limits*."""
    bounds = (*owed, after, high) * PARTITIONS
    return sql_log.fill(connection, f"{_OWED} LIMIT ? OFFSET ?", (*bounds, limits.rows, skip), limits)


def read_keys(
    connection: Connection, owed: SessionKey, after: int, high: int, limits: TickLimits
) -> list[tuple[int, str | None]]:
    """Return the ids and items of the next rows for a session, up to the id *high*."""
    found = connection.exec_driver_sql(_KEYS, ((*owed, after, high) * PARTITIONS) + (limits.rows,))
    return [(entry_id, item_key) for entry_id, item_key in found]


def last_ids(connection: Connection, owed: SessionKey, start: int, high: int, most: int) -> LastIds:
    """Return the last id of the *most* repeated items with several entries for a session."""
    found = connection.exec_driver_sql(_LAST_IDS, ((*owed, start, high) * PARTITIONS) + (most,))
    return dict(map(tuple, found))


def all_rows(connection: Connection, ticks: Sequence[Tick]) -> list[list[LogRow]]:
    """Return the rows of each of *ticks* (neighbours, in order); raise `TrimmedError` without the tick before."""
    highs = [Visibility.parse(tick.mark).high for tick in ticks]
    found = _between(connection, high_before(connection, ticks[0]), highs[-1])
    return _by_tick(found, [row.id for row in found], highs)


def whole_piece(connection: Connection, after: int, tick: Tick, limits: TickLimits) -> list[LogRow]:
    """Return the next rows of a large tick, for all sessions and within *limits*."""
    after = max(after, high_before(connection, tick))
    # Reading the sizes first avoids reading payloads beyond the limits.
    bounds = (after, Visibility.parse(tick.mark).high) * PARTITIONS
    sizes = connection.exec_driver_sql(_SIZES, (*bounds, limits.rows)).all()
    taken = count_within([size for _, size in sizes], limits)
    return _between(connection, after, sizes[taken - 1][0]) if taken else []


def _between(connection: Connection, after: int, upto: int) -> list[LogRow]:
    return [LogRow(*row) for row in connection.exec_driver_sql(_ALL, (after, upto) * PARTITIONS)]


def _by_tick(rows: Iterable[_Row], ids: Iterable[int], highs: Sequence[int]) -> list[list[_Row]]:
    """Divide *rows* among the ticks that end at the ids *highs*; *ids* are the rows' ids, in order."""
    groups: list[list[_Row]] = [[] for _ in highs]
    index = 0
    for row, number in zip(rows, ids, strict=True):
        while number > highs[index]:
            index += 1
        groups[index].append(row)
    return groups


def owes(connection: Connection, owed: SessionKey, after: Visibility | None, upto: Visibility) -> bool:
    """Tell whether there are entries for a session after the first visibility, up to the second."""
    bounds = _bounds(owed, after, upto)
    return connection.exec_driver_sql(f"SELECT 1 FROM ({_OWED}) LIMIT 1", bounds).first() is not None  # noqa: S608


def count_owed(connection: Connection, owed: SessionKey, after: Visibility | None, upto: Visibility) -> int:
    """Count these entries."""
    found = connection.exec_driver_sql(f"SELECT count(*) FROM ({_OWED})", _bounds(owed, after, upto))  # noqa: S608
    return int(found.scalar_one())


def measure(connection: Connection) -> OwedSize:
    """Return the measure of entries for a transaction."""
    return partial(_owed_size, connection)


def _owed_size(
    connection: Connection, owed: SessionKey, after: Visibility | None, upto: Visibility, limit: int
) -> tuple[int, int, int | None]:
    number, size, oldest = connection.exec_driver_sql(_OWED_SIZE, (*_bounds(owed, after, upto), limit)).one()
    return number, size, oldest


def _bounds(owed: SessionKey, after: Visibility | None, upto: Visibility) -> tuple[str | int, ...]:
    return (owed.client, owed.destination, after.high if after else 0, upto.high) * PARTITIONS
