"""Rows of a published snapshot, in (part, ord) order, from any row on."""

from typing import NamedTuple

from sqlalchemy import BigInteger, Connection, Select, bindparam, func, or_, select

from queues import dialects
from queues.errors import SnapshotCancelledError
from queues.snapshots.states import SnapshotState, stored_under
from queues.tables import snapshot_entries, snapshot_parts, snapshots

#: Most parts that one read looks into.
MAX_PARTS = 256


class SnapshotRow(NamedTuple):
    """One entry of a snapshot; `row_no` counts from 1 over all its parts."""

    row_no: int
    payload: bytes
    item_key: str | None


class _Stretch(NamedTuple):
    """What is left of one part: its rows `ord` > `skip`."""

    part: int
    attempt: int
    rows: int
    bytes: int
    first: int
    skip: int

    def likely(self, limit_bytes: int) -> int:
        """Return about how many rows fit into *limit_bytes*, rather more than too few."""
        return 1 + limit_bytes * self.rows * 5 // (max(1, self.bytes) * 4)


def read_rows(
    connection: Connection, sync_id: str, *, after_row: int, limit_rows: int, limit_bytes: int
) -> list[SnapshotRow]:
    """Return the rows `after_row` + 1, + 2, … of a ready snapshot, as many as the limits allow, but at least one.

    An empty list means that there is none left. Raises `SnapshotCancelledError` when the snapshot is not ready or
    its rows are no longer kept. Costs the same at any `after_row`.
    """
    wanted = select(snapshots.c.state, snapshots.c.build).where(snapshots.c.sync_id == sync_id)
    state, build = connection.execute(wanted).one_or_none() or ("not known", "")
    if state != SnapshotState.READY:
        raise SnapshotCancelledError(f"snapshot {sync_id} is {state}, so none of its rows is to be sent")
    stored = stored_under(build)
    rows: list[SnapshotRow] = []
    left = limit_bytes
    for stretch in _stretches(connection, stored, after_row):
        read = _read(connection, stored, stretch, limit_rows - len(rows), left, even_too_large=not rows)
        rows += read
        left -= sum(len(row.payload) for row in read)
        if stretch.skip + len(read) < stretch.rows:
            break
    return rows


def _stretches(connection: Connection, sync_id: str, after_row: int) -> list[_Stretch]:
    parts = (
        select(
            snapshot_parts.c.part,
            snapshot_parts.c.attempt,
            snapshot_parts.c.row_count,
            snapshot_parts.c.byte_count,
            (func.sum(snapshot_parts.c.row_count).over(order_by=snapshot_parts.c.part)).label("total"),
        )
        .where(snapshot_parts.c.sync_id == sync_id)
        .subquery()
    )
    rest = select(parts).where(parts.c.total > after_row).order_by(parts.c.part).limit(MAX_PARTS)
    found = []
    for row in connection.execute(rest):
        first = int(row.total) - row.row_count
        found.append(_Stretch(row.part, row.attempt, row.row_count, row.byte_count, first, max(0, after_row - first)))
    return found


def _read(
    connection: Connection, sync_id: str, stretch: _Stretch, limit_rows: int, limit_bytes: int, *, even_too_large: bool
) -> list[SnapshotRow]:
    """Return rows in one look: their sizes are summed up where they are stored, and only what fits is sent."""
    likely = min(limit_rows, stretch.likely(limit_bytes))
    found = dialects.of(connection).bulk_select(
        connection,
        _NEXT,
        {
            "of_sync": sync_id,
            "of_part": stretch.part,
            "of_attempt": stretch.attempt,
            "after": stretch.skip,
            "likely": max(likely, int(even_too_large)),
            "limit_bytes": limit_bytes,
            "in_any_case": stretch.skip + int(even_too_large),
        },
    )
    rows = [SnapshotRow(stretch.first + ord_, payload, item_key) for ord_, payload, item_key in found]
    complete = rows[-1].row_no == stretch.first + stretch.skip + len(rows) if rows else not even_too_large
    if not complete:
        raise SnapshotCancelledError(f"rows of snapshot {sync_id} are no longer kept: it was finished meanwhile")
    return rows


def _next_rows() -> Select[tuple[int, bytes, str | None]]:
    entries = snapshot_entries.c
    upto = func.sum(func.length(entries.payload)).over(order_by=entries.ord, rows=(None, 0)).label("upto")
    following = (
        select(entries.ord, entries.payload, entries.item_key, upto)
        .where(
            entries.sync_id == bindparam("of_sync"),
            entries.part == bindparam("of_part"),
            entries.attempt == bindparam("of_attempt"),
            entries.ord > bindparam("after"),
        )
        .order_by(entries.ord)
        .limit(bindparam("likely", type_=BigInteger))
        .subquery()
        .c
    )
    fits = following.upto <= bindparam("limit_bytes", type_=BigInteger)
    chosen = or_(fits, following.ord <= bindparam("in_any_case"))
    return select(following.ord, following.payload, following.item_key).where(chosen).order_by(following.ord)


_NEXT = _next_rows()
