"""The next tick of SQLite's send log: whole transactions, in the order of ids."""

from collections.abc import Sequence
from contextlib import closing as closed

from sqlalchemy import Connection, select

from queues.database.tables.log import PARTITIONS, log_head
from queues.positions import Visibility
from queues.send_log.destination_sets import Sighting, sightings
from queues.send_log.port import LogRow, TickLimits, row_size, size_of
from queues.send_log.sqlite.reads import COLUMNS, SIZE, everywhere
from queues.send_log.ticks import TickDraft

_NEXT = everywhere(COLUMNS + ", destinations", "id > ?") + " ORDER BY 2"
_SIGHTED = (
    "SELECT client, tag_set, max(destinations), count(*), sum(size), max(id) FROM ("  # noqa: S608
    + everywhere(f"client, tag_set, destinations, {SIZE} AS size, id", "id >= ? AND transaction_id = ?")
    + ") GROUP BY client, tag_set"
)


def draft_after(connection: Connection, after: int, limits: TickLimits) -> TickDraft | None:
    """Return the tick of the entries after the id *after*, within *limits*; None if there are none."""
    head = connection.execute(select(log_head.c.last_id)).scalar_one()
    if head <= after:
        return None
    rows, inline, complete = _fill(connection, after, limits)
    if not rows:
        return None
    if not complete:
        whole = _whole_transactions(rows)
        if whole == 0:
            return _giant(connection, rows[0])
        del rows[whole:], inline[whole:]
    seen = sightings((row.client, row.tag_set, text) for row, text in zip(rows, inline, strict=True))
    size = size_of(rows)
    return TickDraft(Visibility(high=rows[-1].id), rows, seen, len(rows), size, more=not complete)


def _fill(connection: Connection, after: int, limits: TickLimits) -> tuple[list[LogRow], list[str | None], bool]:
    """Read rows until the limits or the end of the queue; return True at the end of the queue."""
    rows: list[LogRow] = []
    inline: list[str | None] = []
    size = 0
    streaming = connection.execution_options(stream_results=True, max_row_buffer=256)
    with closed(streaming.exec_driver_sql(_NEXT, (after,) * PARTITIONS)) as result:
        for found in result:
            row = LogRow(*found[:10])
            size += row_size(row)
            if rows and (len(rows) >= limits.rows or size > limits.payload_bytes):
                # The caller removes the transaction of this last row, so that a tick has whole transactions.
                rows.append(row)
                inline.append(found[10])
                return rows, inline, False
            rows.append(row)
            inline.append(found[10])
    return rows, inline, True


def _whole_transactions(rows: Sequence[LogRow]) -> int:
    """Count the rows before the transaction of the last row."""
    last = rows[-1].transaction
    count = len(rows)
    while count and rows[count - 1].transaction == last:
        count -= 1
    return count


def _giant(connection: Connection, first: LogRow) -> TickDraft:
    """Return the large tick of one transaction that alone is above the limits."""
    found = connection.exec_driver_sql(_SIGHTED, (first.id, first.transaction) * PARTITIONS).all()
    seen = [Sighting(number, client, text, rows) for client, number, text, rows, _, _ in found]
    high = max(row[5] for row in found)
    return TickDraft(
        Visibility(high=high), None, seen, sum(row[3] for row in found), sum(row[4] for row in found), more=True
    )
