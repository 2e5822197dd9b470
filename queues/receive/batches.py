"""Read the next batch of a receive queue: whole source transactions, within limits of rows and bytes."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from sqlalchemy import Connection

from queues.errors import NeedsFullSyncError
from queues.receive.block_entries import LogEntries, Sizes
from queues.receive.kept_blocks import KeptBlocks
from queues.receive.received_rows import LogRowColumns, ReceivedRow


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of one listener call; a single larger source transaction is still delivered whole."""

    entries: int
    bytes: int


class Fetched(NamedTuple):
    """All rows of a queue up to and including `end`, the end of a source transaction.

    `blocks` of the log have their last row here; they count `freed` bytes in the queue.
    """

    rows: Sequence[ReceivedRow]
    end: int
    blocks: int = 0
    freed: int = 0


def next_entries(
    connection: Connection | None, kept: KeptBlocks, after: int, upto: int, limits: BatchLimits, *, one: bool = False
) -> Fetched:
    """Read whole source transactions with `after < seq <= upto`, within *limits*; with *one*, only the first.

    *kept* is open at *after*. If no entry is left before *upto*, the result ends there, so an empty result can still
    advance the marks. Raises `NeedsFullSyncError` if a block is damaged.
    """
    sizes = Sizes()
    pieces: list[tuple[LogEntries, int, int]] = []
    at, total = after, 0
    while True:
        try:
            block = kept.following(connection, at, upto)
        except NeedsFullSyncError:
            # The entries before a damaged block come first, if that block continues none of their transactions.
            if not sizes or kept.next_tick(at) < sizes.transactions[-1]:
                raise
            block, upto = None, at
        if block is None:
            taken = rows_within(sizes, limits, one=one, complete=True)
            break
        last = min(block.end_seq, upto, max(at, block.first - 1) + _wanted(len(sizes), limits, one=one))
        pieces.append((block, at, last))
        more = block.sizes(at, last)
        sizes.extend(more)
        total += sum(more.bytes)
        at = last
        # The first transaction is delivered whole, so only its end counts until then.
        if sizes.transactions[-1] != sizes.transactions[0] and (
            one or len(sizes) > limits.entries or total > limits.bytes
        ):
            taken = rows_within(sizes, limits, one=one, complete=False)
            break
    end = upto if taken is None or taken == len(sizes) else sizes.seqs[taken] - 1
    rows = LogRowColumns.joined(block.rows(begin, min(last, end)) for block, begin, last in pieces if begin < end)
    ended = [block for block, _, last in pieces if last == block.end_seq <= end]
    return Fetched(rows, end, len(ended), sum(block.size for block in ended))


def kept_entries(kept: KeptBlocks, after: int, limits: BatchLimits) -> Fetched | None:
    """Return the result of `next_entries` if *kept* has all of it in memory; else None."""
    upto = kept.reach
    # So few entries are taken together. The last transaction may go on in a block that is not kept.
    if after >= upto or (upto - after <= limits.entries and not kept.has_all):
        return None
    kept.drop_before(after)
    found = next_entries(None, kept, after, upto, limits)
    return found if found.end < upto or kept.has_all else None


def _wanted(found: int, limits: BatchLimits, *, one: bool) -> int:
    """Return the number of entries to look at next, after *found* ones."""
    if one:
        return found + 2
    left = limits.entries + 1 - found
    return left if left > 0 else limits.entries + 1


def rows_within(sizes: Sizes, limits: BatchLimits, *, one: bool = False, complete: bool | None = None) -> int | None:
    """Return the number of leading rows that form whole transactions; None if no transaction ends among them. Pure.

    *sizes* cover the next rows; *complete*: there are no more. By default, there are more if *sizes* exceed the limit.
    At least one transaction is taken, of any size; with *one*, exactly one.
    """
    rows, transactions = len(sizes), sizes.transactions
    if complete is None:
        complete = rows <= limits.entries
    if not one:
        fitting = bisect_right(list(accumulate(sizes.bytes)), limits.bytes)
        if complete and fitting == rows:
            return rows
        for taken in range(min(fitting, rows - 1), 0, -1):
            if transactions[taken] != transactions[taken - 1]:
                return taken
    for taken in range(1, rows):
        if transactions[taken] != transactions[taken - 1]:
            return taken
    return rows if complete else None
