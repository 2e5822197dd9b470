"""Whether a range of the log can be sent again, and the new entries for it. Pure.

Entries of a resend are new ones with new numbers. See docs/design.md, "Resends".
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from queues.destinations import DestinationSet
from queues.entry_headers import checked_headers, parse
from queues.errors import InvalidHeadersError
from queues.send_log.outbox import NewEntry
from queues.send_log.port import LogRow

#: The header of a new entry: the position of the entry that was sent before, as `<branch>@<number>`.
RESENT: Final = "lrq-resent"


class SeqRange(NamedTuple):
    """The entries from number `from_seq` to number `to_seq`, both included."""

    from_seq: int
    to_seq: int


class LogExtent(NamedTuple):
    """Entries after `trimmed_seq` up to `newest_seq` are in the log; see `replica_sets.regrouped_seq`."""

    trimmed_seq: int
    newest_seq: int
    regrouped_seq: int


class NumberedRow(NamedTuple):
    """A row of the log with its number for one session."""

    seq: int
    row: LogRow


class ResendPortion(NamedTuple):
    """Entries of one source transaction that are sent again together.

    Everything up to `end_seq` is done then, and `left_out` entries with an item key were passed over.
    """

    rows: Sequence[NumberedRow]
    end_seq: int
    left_out: int


def refuse_range(wanted: SeqRange, log: LogExtent) -> str:
    """Return the reason why the entries of a range cannot be sent again, or an empty text."""
    if wanted.to_seq < wanted.from_seq:
        return f"the range ends at {wanted.to_seq:,}, before its first entry {wanted.from_seq:,}"
    if wanted.to_seq > log.newest_seq:
        return f"the log has entries up to {log.newest_seq:,}, so the range cannot end at {wanted.to_seq:,}"
    if wanted.from_seq <= log.trimmed_seq:
        is_empty = log.trimmed_seq == log.newest_seq
        cure = "write them again" if is_empty else f"begin with {log.trimmed_seq + 1:,}"
        return (
            f"entries up to {log.trimmed_seq:,} are trimmed: {cure} "
            "(acknowledged_retention_seconds keeps entries longer)"
        )
    if wanted.from_seq <= log.regrouped_seq:
        return (
            f"the groups of replicas have changed at {log.regrouped_seq:,}, so earlier entries have other numbers: "
            f"begin with {log.regrouped_seq + 1:,}"
        )
    return ""


def numbered(rows: Iterable[LogRow], before: int) -> list[NumberedRow]:
    """Number rows that were sent, or would be; *before* is the number before the first of them."""
    return [NumberedRow(seq, row) for seq, row in enumerate(rows, before + 1)]


def sent_rows(rows: Sequence[LogRow]) -> list[LogRow]:
    """Return the rows of one whole tick that a session sends: of one item only the last."""
    last = {row.item_key: place for place, row in enumerate(rows) if row.item_key is not None}
    return [row for place, row in enumerate(rows) if row.item_key is None or last[row.item_key] == place]


def portions(rows: Iterable[NumberedRow], after_seq: int, to_seq: int) -> Iterator[ResendPortion]:
    """Yield the rows after *after_seq* up to *to_seq*, each source transaction for itself.

    An entry with an item key is a state. The site has that state or a newer one, so such entries are left out.
    """
    chosen = (each for each in rows if after_seq < each.seq <= to_seq)
    for _, alike in groupby(chosen, key=lambda each: (each.row.transaction, each.row.request)):
        together = list(alike)
        kept = [each for each in together if each.row.item_key is None]
        yield ResendPortion(kept, together[-1].seq, len(together) - len(kept))


def again(each: NumberedRow, branch: str, destinations: DestinationSet) -> NewEntry:
    """Return the new entry for a row of *branch*; it has the header `RESENT` where the other headers leave room."""
    row = each.row
    headers = row.headers
    try:
        before = {} if headers is None else parse(headers)
        headers = checked_headers({**before, RESENT: f"{branch}@{each.seq}"})
    except InvalidHeadersError:
        # The entry matters more than its mark.
        pass
    return NewEntry(row.payload, destinations, None, row.partition_key, headers)
