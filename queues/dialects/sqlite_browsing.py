"""Browsing the log-entry queue on SQLite: segment after segment, in the order of ids."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, Table, func, literal, select

from queues.browse.port import Cursor, StoredEntry
from queues.positions import Mark
from queues.tables import log_head, sqlite_segments


class SqliteBrowsing:
    """See `queues.browse.port.LogBrowsing`."""

    @property
    def tables(self) -> Sequence[Table]:
        """See the port."""
        return sqlite_segments

    def entries(
        self, connection: Connection, after: Cursor, floors: Mapping[int, int] | None, limit: int
    ) -> list[StoredEntry]:
        """See the port. Ids only grow from one segment to the next, so the first that fill the limit are enough."""
        found: list[StoredEntry] = []
        for slot in _in_order(connection, after.id):
            if floors is None:
                found += _of_segment(connection, slot, limit, sqlite_segments[slot].c.id > after.id)
            else:
                for number, floor in floors.items():
                    segment = sqlite_segments[slot].c
                    first = max(floor, after.id + 1)
                    found += _of_segment(connection, slot, limit, segment.tag_set == number, segment.id >= first)
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
        segment = sqlite_segments[entry.slot].c
        chosen = select(func.substr(segment.payload, 1, size)).where(segment.id == entry.id)
        return bytes(connection.execute(chosen).scalar_one() or b"")  # SQLite knows no part of an empty one

    def orders(self, connection: Connection, transactions: Iterable[int]) -> Mapping[int, int]:  # noqa: ARG002
        """See the port: there is none, ids are in the order of commits."""
        return {}

    def committed(self, connection: Connection) -> Mark:
        """See the port."""
        return Mark(high=connection.execute(select(log_head.c.last_id)).scalar_one())

    def uncovered(self, connection: Connection, after: Mark | None, upto: Mark, limit: int) -> int:
        """See the port."""
        low = after.high if after else 0
        count = 0
        for slot in _in_order(connection, low):
            segment = sqlite_segments[slot].c
            count += _count(connection, limit - count, segment.id > low, segment.id <= upto.high)
        return count


def _id(entry: StoredEntry) -> int:
    return entry.id


def _in_order(connection: Connection, after: int) -> list[int]:
    """Return the slots that hold ids above *after*, oldest first."""
    bounds = []
    for slot, segment in enumerate(sqlite_segments):
        newest: int | None = connection.execute(select(func.max(segment.c.id))).scalar()
        if newest is not None and newest > after:
            bounds.append((newest, slot))
    return [slot for _, slot in sorted(bounds)]


def _count(connection: Connection, limit: int, *chosen: ColumnElement[bool]) -> int:
    rows = select(literal(1)).where(*chosen).limit(limit).subquery()
    return connection.execute(select(func.count()).select_from(rows)).scalar_one()


def _of_segment(connection: Connection, slot: int, limit: int, *chosen: ColumnElement[bool]) -> list[StoredEntry]:
    segment = sqlite_segments[slot].c
    columns = (
        segment.transaction_id, segment.id, literal(slot), segment.client, segment.tag_set, segment.destinations,
        segment.item_key, segment.partition_key, segment.created_us, func.length(segment.payload),
    )  # fmt: skip
    rows = connection.execute(select(*columns).where(*chosen).order_by(segment.id).limit(limit))
    return [StoredEntry(*row) for row in rows]
