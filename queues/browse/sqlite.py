"""Browse the send log on SQLite: segment by segment, in the order of ids."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, Table, func, literal, select

from queues.browse.port import Cursor, StoredEntry
from queues.database.tables.log import log_head, sqlite_segments
from queues.positions import Visibility


class SqliteBrowsing:
    """See `queues.browse.port.LogBrowsing`."""

    @property
    def tables(self) -> Sequence[Table]:
        """See the port."""
        return sqlite_segments

    def entries(
        self, connection: Connection, after: Cursor, floors: Mapping[int, int] | None, limit: int
    ) -> list[StoredEntry]:
        """See the port. Ids grow from segment to segment, so the oldest segments that fill the limit suffice."""
        found: list[StoredEntry] = []
        for partition in _in_order(connection, after.id):
            if floors is None:
                found += _of_segment(connection, partition, limit, sqlite_segments[partition].c.id > after.id)
            else:
                for number, floor in floors.items():
                    segment = sqlite_segments[partition].c
                    first = max(floor, after.id + 1)
                    found += _of_segment(connection, partition, limit, segment.tag_set == number, segment.id >= first)
            if len(found) >= limit:
                break
        return sorted(found, key=_id)[:limit]

    def count(self, connection: Connection, floors: Mapping[int, int] | None, limit: int) -> int:
        """See the port."""
        count = 0
        for segment in sqlite_segments:
            if floors is None:
                count += _count(connection, limit - count, segment.c.id > 0)
            for number, floor in (floors or {}).items():
                if count >= limit:
                    return count
                count += _count(connection, limit - count, segment.c.tag_set == number, segment.c.id >= floor)
        return count

    def payload(self, connection: Connection, entry: StoredEntry, size: int) -> bytes:
        """See the port."""
        segment = sqlite_segments[entry.partition].c
        chosen = select(func.substr(segment.payload, 1, size)).where(segment.id == entry.id)
        return bytes(connection.execute(chosen).scalar_one() or b"")  # NULL for a part of an empty payload

    def orders(self, connection: Connection, transactions: Iterable[int]) -> Mapping[int, int]:  # noqa: ARG002
        """See the port; always empty, because ids are in the order of commits."""
        return {}

    def committed(self, connection: Connection) -> Visibility:
        """See the port."""
        return Visibility(high=connection.execute(select(log_head.c.last_id)).scalar_one())

    def uncovered(self, connection: Connection, after: Visibility | None, upto: Visibility, limit: int) -> int:
        """See the port."""
        low = after.high if after else 0
        count = 0
        for partition in _in_order(connection, low):
            segment = sqlite_segments[partition].c
            count += _count(connection, limit - count, segment.id > low, segment.id <= upto.high)
        return count


def _id(entry: StoredEntry) -> int:
    return entry.id


def _in_order(connection: Connection, after: int) -> list[int]:
    """Return the indexes of the segments with ids above *after*, oldest first."""
    bounds = []
    for partition, segment in enumerate(sqlite_segments):
        newest: int | None = connection.execute(select(func.max(segment.c.id))).scalar()
        if newest is not None and newest > after:
            bounds.append((newest, partition))
    return [partition for _, partition in sorted(bounds)]


def _count(connection: Connection, limit: int, *chosen: ColumnElement[bool]) -> int:
    rows = select(literal(1)).where(*chosen).limit(limit).subquery()
    return connection.execute(select(func.count()).select_from(rows)).scalar_one()


def _of_segment(connection: Connection, partition: int, limit: int, *chosen: ColumnElement[bool]) -> list[StoredEntry]:
    segment = sqlite_segments[partition].c
    columns = (
        segment.transaction_id, segment.id, literal(partition), segment.client, segment.tag_set, segment.destinations,
        segment.item_key, segment.partition_key, segment.created_us, func.length(segment.payload),
        segment.headers,
    )  # fmt: skip
    rows = connection.execute(select(*columns).where(*chosen).order_by(segment.id).limit(limit))
    return [StoredEntry(*row) for row in rows]
