"""Read the entries of a receive queue in spans; a missing entry raises an error."""

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection, Engine

from discovery.registry import ReceiveQueue
from lr_client.spark.receive.offsets import Span
from lr_client.spark.receive.queue import gone, require
from queues.database.transactions import reading
from queues.receive import snapshot_blocks
from queues.receive.batches import BatchLimits, rows_within
from queues.receive.block_entries import Sizes
from queues.receive.consumer_marks import IN_LOG, IN_SNAPSHOT, Consumed
from queues.receive.entry_ranges import EntryRange, count_entries, end_and_count, entries_in, every_nth, first_sizes
from queues.receive.received_rows import ReceivedRow
from queues.receive.snapshot_batches import next_snapshot_rows
from queues.receive.snapshot_blocks import HeldSnapshot, SnapshotRow

#: The size limits of one page; a larger entry comes alone.
PAGE: Final = BatchLimits(entries=2_000, bytes=4 * 1024 * 1024)


def count(connection: Connection, queue_id: int, span: Span) -> int:
    """Count the entries of a span."""
    if span.kind == IN_SNAPSHOT:
        return sum(block.rows for block in _held(connection, queue_id, span))
    return count_entries(connection, _range(queue_id, span))


def measure(connection: Connection, queue: ReceiveQueue, span: Span, limits: BatchLimits | None) -> tuple[int, int]:
    """Measure the longest beginning of *span* within *limits*: return its last number and its number of entries.

    A log is divided only between source transactions; a single larger transaction or row may exceed the limits. Raises
    `NeedsFullSyncError` when rows of a snapshot are missing; these are numbered without gaps.
    """
    if span.kind == IN_LOG:
        return _measure_log(connection, queue.queue_id, span, limits)
    end, is_cut = _measure_snapshot(connection, queue.queue_id, span, limits)
    if end < span.upto and not is_cut:
        raise gone(queue, span, end - span.after, end - span.after + 1)
    return end, end - span.after


def _measure_log(connection: Connection, queue_id: int, span: Span, limits: BatchLimits | None) -> tuple[int, int]:
    wanted, transaction_seq = _range(queue_id, span), None
    if limits is not None:
        sizes = first_sizes(connection, wanted, limits.entries + 1)
        taken = rows_within(sizes, limits) if sizes else 0
        if taken is not None:
            return (sizes.seqs[taken - 1] if taken else span.after), taken
        transaction_seq = sizes.transactions[0]
    end, entries = end_and_count(connection, wanted, transaction_seq)
    return (end or span.after), entries


def _measure_snapshot(
    connection: Connection, queue_id: int, span: Span, limits: BatchLimits | None
) -> tuple[int, bool]:
    """Return the number of the last stored row within *limits*, and whether *limits* exclude later rows."""
    end, size = span.after, 0
    for rows, last_row, rows_size in _held(connection, queue_id, span):
        if limits is not None and (last_row - span.after > limits.entries or size + rows_size > limits.bytes):
            # Only the block at the limit is measured row by row.
            left = BatchLimits(limits.entries - (end - span.after), limits.bytes - size)
            taken, rows_size = _fitting(connection, queue_id, span._replace(after=end, upto=last_row), left)
            taken = taken or int(end == span.after)
            if taken < rows:
                return end + taken, True
        end, size = last_row, size + rows_size
    return end, False


def _fitting(connection: Connection, queue_id: int, span: Span, limits: BatchLimits) -> tuple[int, int]:
    """Return how many rows of *span* fit into *limits*, and their size in bytes."""
    taken, size = 0, 0
    for row in _rows(connection, queue_id, span):
        if taken == limits.entries or size + len(row.payload) > limits.bytes:
            break
        taken, size = taken + 1, size + len(row.payload)
    return taken, size


def cut(connection: Connection, queue_id: int, span: Span, entries: int, pieces: int) -> list[tuple[Span, int]]:
    """Divide *span*, of *entries* entries, into at most *pieces* spans; return each with its number of entries."""
    step = max(1, -(-entries // pieces))
    if span.kind == IN_SNAPSHOT:
        inner = list(range(span.after + step, span.upto, step))
    else:
        inner = every_nth(connection, _range(queue_id, span), step, entries)
    ends = zip([span.after, *inner], [*inner, span.upto], strict=True)
    return [
        (span._replace(after=after, upto=upto), min(step, entries - number * step))
        for number, (after, upto) in enumerate(ends)
    ]


def pages(engine: Engine, queue: ReceiveQueue, span: Span, entries: int) -> Iterator[list[ReceivedRow]]:
    """Read a span in pages, each in its own transaction, so a slow reader blocks no writer.

    Raises like `require` when the span has changed since the planning of the batch. Raises `NeedsFullSyncError` when
    the span has fewer or more than *entries* entries.
    """
    after, left = span.after, entries
    while left > 0:
        with reading(engine, snapshot=True) as connection:
            require(connection, queue, span)
            rows = _page(connection, queue.queue_id, span._replace(after=after))
        if not rows or len(rows) > left:
            raise gone(queue, span, entries - left + len(rows), entries)
        yield rows
        after, left = rows[-1].seq, left - len(rows)


def _page(connection: Connection, queue_id: int, span: Span) -> list[ReceivedRow]:
    if span.kind == IN_SNAPSHOT:
        seen = Consumed(IN_SNAPSHOT, span.sync_id, span.after, "", 0)
        return list(next_snapshot_rows(connection, queue_id, seen, span.upto, PAGE).rows)
    # Read the sizes first, and only the payloads that fit. A page may end within a transaction.
    found = first_sizes(connection, _range(queue_id, span), PAGE.entries + 1)
    sizes = Sizes(found.seqs, found.seqs, found.bytes)
    taken = rows_within(sizes, PAGE) if sizes else 0
    if not taken:
        return []
    return entries_in(connection, _range(queue_id, span._replace(upto=sizes.seqs[taken - 1])))


def _range(queue_id: int, span: Span) -> EntryRange:
    return EntryRange(queue_id, span.after, span.upto)


def _held(connection: Connection, queue_id: int, span: Span) -> list[HeldSnapshot]:
    return snapshot_blocks.held(connection, queue_id, span.sync_id, after=span.after, upto=span.upto)


def _rows(connection: Connection, queue_id: int, span: Span) -> Iterator[SnapshotRow]:
    return snapshot_blocks.rows(connection, queue_id, span.sync_id, after=span.after, upto=span.upto)
