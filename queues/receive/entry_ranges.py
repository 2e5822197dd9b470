"""Read the log entries of a receive queue by ranges of sequence numbers, `after < seq <= upto`; nothing is deleted."""

from typing import NamedTuple

from sqlalchemy import Connection

from queues.receive import log_blocks
from queues.receive.block_entries import Sizes
from queues.receive.received_rows import ReceivedRow


class EntryRange(NamedTuple):
    """The entries of one queue with `after < seq <= upto`."""

    queue_id: int
    after: int
    upto: int


def count_entries(connection: Connection, wanted: EntryRange) -> int:
    """Count the entries of a range."""
    return sum(each.entries for each in log_blocks.held(connection, *wanted))


def first_sizes(connection: Connection, wanted: EntryRange, limit: int) -> Sizes:
    """Return the sizes of the first entries of a range; the blocks of these entries are unpacked."""
    found = Sizes()
    for block in log_blocks.entries(connection, *wanted):
        found.extend(block.sizes(wanted.after, min(wanted.upto, block.end_seq)))
        if len(found) >= limit:
            break
    return Sizes(found.seqs[:limit], found.transactions[:limit], found.bytes[:limit])


def end_and_count(
    connection: Connection, wanted: EntryRange, transaction_seq: int | None = None
) -> tuple[int | None, int]:
    """Return the last number in a range (None if it is empty) and the number of its entries.

    With *transaction_seq*, only the entries of that source transaction, with which the range begins, count.
    """
    if transaction_seq is None:
        found = log_blocks.held(connection, *wanted)
        return (found[-1].end_seq if found else None), sum(each.entries for each in found)
    end, entries = None, 0
    for row in log_blocks.rows(connection, *wanted):
        if row.transaction_seq != transaction_seq:
            break
        end, entries = row.seq, entries + 1
    return end, entries


def every_nth(connection: Connection, wanted: EntryRange, step: int, entries: int) -> list[int]:
    """Return the number of every *step*-th of the *entries* in a range, without the last one."""
    borders: list[int] = []
    before = 0
    for block in log_blocks.held(connection, *wanted):
        upto = before + block.entries
        # The first place in this block that is a multiple of the step.
        place = before - before % step + step
        borders += [block.end_seq - (upto - each) for each in range(place, upto + 1, step) if each < entries]
        before = upto
    return borders


def entries_in(connection: Connection, wanted: EntryRange) -> list[ReceivedRow]:
    """Return the entries of a range, in order."""
    return list(log_blocks.rows(connection, *wanted))
