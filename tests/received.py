"""The log entries that stand in the blocks of a site's receive queues."""

from collections.abc import Sequence

from sqlalchemy import Connection, Engine, insert, select

from queues.blocks import EntryRow, encode_entries
from queues.database.tables.receive import receive_blocks
from queues.receive.block_entries import LogEntries, ReceivedBlock
from queues.receive.marks import stored_size
from queues.receive.received_rows import ReceivedRow

#: The number of log entries in all receive queues of a site, as SQL.
COUNT = "SELECT CAST(coalesce(sum(row_count), 0) AS INTEGER) FROM lrq_receive_blocks"


def received_rows(connection: Connection) -> list[ReceivedRow]:
    """Return the entries of all receive queues, queue by queue, in order; applied ones of a block are among them."""
    columns = (receive_blocks.c[name] for name in ReceivedBlock._fields)
    found = connection.execute(select(*columns).order_by(receive_blocks.c.queue_id, receive_blocks.c.end_seq))
    return [row for block in found for row in LogEntries(ReceivedBlock(*block)).rows(0, block.end_seq)]


def received_payloads(engine: Engine) -> list[bytes]:
    """Return the payloads of `received_rows`."""
    with engine.connect() as connection:
        return [row.payload for row in received_rows(connection)]


def insert_block(connection: Connection, queue_id: int, tick_seq: int, start_seq: int, rows: Sequence[EntryRow]) -> int:
    """Store *rows*, at least one, as the block after *start_seq* of the tick after *tick_seq*; return its size."""
    block = encode_entries(rows)
    size = stored_size(block.plain_size, len(rows))
    place = {"start_seq": start_seq, "end_seq": start_seq + len(rows), "row_count": len(rows), "tick_seq": tick_seq}
    packed = block.SerializeToString()
    connection.execute(insert(receive_blocks).values(queue_id=queue_id, size=size, block=packed, **place))
    return size
