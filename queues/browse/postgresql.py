"""Browse the send log on PostgreSQL, in the order of transaction ids."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Table,
    Text,
    Values,
    cast,
    column,
    false,
    func,
    or_,
    select,
    true,
    tuple_,
    values,
)

from queues.browse.port import Cursor, StoredEntry
from queues.database.tables.log import log_commits, log_entries
from queues.positions import PgSnapshot, Visibility

_NOTHING = PgSnapshot(1, 1, frozenset())

_entry = log_entries.c
_COLUMNS = (
    _entry.xid.label("transaction"), _entry.id, _entry.slot, _entry.client, _entry.tag_set, _entry.destinations,
    _entry.item_key, _entry.partition_key, _entry.created_us, func.octet_length(_entry.payload).label("size"),
    _entry.headers,
)  # fmt: skip


class PostgresqlBrowsing:
    """See `queues.browse.port.LogBrowsing`."""

    @property
    def tables(self) -> Sequence[Table]:
        """See the port."""
        return (log_entries,)

    def entries(
        self, connection: Connection, after: Cursor, floors: Mapping[int, int] | None, limit: int
    ) -> list[StoredEntry]:
        """See the port."""
        # The first condition bounds the index scan; the second one is exact.
        chosen = (_entry.xid >= after.transaction, tuple_(_entry.xid, _entry.id) > tuple_(*after))
        if floors is None:
            return _entries(connection, select(*_COLUMNS).where(*chosen).order_by(_entry.xid, _entry.id).limit(limit))
        if not floors:
            return []
        sets = _wanted(floors)
        own = (_entry.tag_set == sets.c.number, _entry.xid >= sets.c.floor)
        # Each set has its own subquery, which reads at most *limit* rows of the index.
        of_set = select(*_COLUMNS).where(*chosen, *own).order_by(_entry.xid, _entry.id).limit(limit).lateral("of_set")
        merged = select(of_set).select_from(sets.join(of_set, true())).order_by(of_set.c.transaction, of_set.c.id)
        return _entries(connection, merged.limit(limit))

    def count(self, connection: Connection, floors: Mapping[int, int] | None, limit: int) -> int:
        """See the port."""
        if floors is None:
            return _count(connection, select(_entry.id), limit)
        if not floors:
            return 0
        sets = _wanted(floors)
        own = (_entry.tag_set == sets.c.number, _entry.xid >= sets.c.floor)
        of_set = select(_entry.id).where(*own).limit(limit).lateral("of_set")
        return _count(connection, select(of_set.c.id).select_from(sets.join(of_set, true())), limit)

    def payload(self, connection: Connection, entry: StoredEntry, size: int) -> bytes:
        """See the port."""
        # The tag set narrows the index scan, because the transaction may be large.
        place = (_entry.slot == entry.partition, _entry.tag_set == entry.tag_set, _entry.xid == entry.transaction)
        itself = (*place, _entry.id == entry.id)
        return bytes(connection.execute(select(func.substr(_entry.payload, 1, size)).where(*itself)).scalar_one())

    def orders(self, connection: Connection, transactions: Iterable[int]) -> Mapping[int, int]:
        """See the port."""
        found = select(log_commits.c.xid, log_commits.c.commit_seq).where(log_commits.c.xid.in_(list(transactions)))
        return {row.xid: row.commit_seq for row in connection.execute(found)}

    def committed(self, connection: Connection) -> Visibility:
        """See the port."""
        snapshot = connection.execute(select(cast(func.pg_current_snapshot(), Text))).scalar_one()
        return Visibility(window=PgSnapshot.parse(snapshot))

    def uncovered(self, connection: Connection, after: Visibility | None, upto: Visibility, limit: int) -> int:
        """See the port."""
        low, high = (after.window if after else None) or _NOTHING, upto.window or _NOTHING
        newer = select(_entry.id).where(_between(log_entries.c.xid, low, high))
        count = _count(connection, newer, limit)
        if after is None or after.upto is None or count >= limit:
            return count
        # The tick closed only a part of its window; the other rows of that window count too.
        rest = (
            select(_entry.id)
            .join(log_commits, log_commits.c.xid == _entry.xid)
            .where(_between(_entry.xid, after.base or _NOTHING, low), log_commits.c.commit_seq > after.upto)
        )
        return count + _count(connection, rest, limit - count)


def _entries(connection: Connection, chosen: Select[*tuple[Any, ...]]) -> list[StoredEntry]:
    return [StoredEntry(*row) for row in connection.execute(chosen)]


def _wanted(floors: Mapping[int, int]) -> Values:
    """Return the sets as a table of `number` and `floor`."""
    wanted = values(column("number", BigInteger), column("floor", BigInteger), name="wanted")
    return wanted.data(list(floors.items()))


def _between(xid: ColumnElement[int], low: PgSnapshot, high: PgSnapshot) -> ColumnElement[bool]:
    """Return the condition that *high* sees a transaction and *low* does not."""
    was_running = xid.in_(sorted(low.running)) if low.running else false()
    visible = (xid < high.xmax) & xid.not_in(sorted(high.running)) if high.running else xid < high.xmax
    return or_(xid >= low.xmax, was_running) & visible


def _count(connection: Connection, rows: Select[tuple[int]], limit: int) -> int:
    return connection.execute(select(func.count()).select_from(rows.limit(limit).subquery())).scalar_one()
