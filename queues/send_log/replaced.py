"""Leave out the replaced entries of a large tick, in bounded memory (docs/design.md, "Replaced entries").

The result depends on the tick's rows only. So every reader numbers the remaining rows alike, however often it resumes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from queues.send_log.port import LogPiece, LogRow

#: The most items of a large tick whose replaced entries are left out. The items with the most entries come first; all
#: entries of further items are sent.
MAX_ITEMS: Final = 20_000

#: The id of the last entry of each repeated item in a large tick, for `MAX_ITEMS` items.
LastIds = Mapping[str, int]
#: Reads the rows after an id, without a number of first ones; none at the end of the tick.
ReadRows = Callable[[int, int], Sequence[LogRow]]
#: Reads ids and item keys after an id; an empty sequence at the end of the tick.
ReadKeys = Callable[[int], Sequence[tuple[int, str | None]]]


def is_replaced(entry_id: int, item_key: str | None, last: LastIds) -> bool:
    """Return whether a later entry of the same item replaces the entry."""
    return item_key is not None and last.get(item_key, entry_id) > entry_id


def remaining(start: int, skip: int, last: LastIds, read: ReadRows, skim: ReadKeys) -> Iterator[LogPiece]:
    """Yield the rows after the id *start* that stay, without the first *skip* of them."""
    after = start
    if last and skip:
        after, skip = _after_skipped(start, skip, last, skim), 0
    replaced = 0
    while rows := read(after, skip):
        after, skip = rows[-1].id, 0
        kept = [row for row in rows if not is_replaced(row.id, row.item_key, last)]
        replaced += len(rows) - len(kept)
        if kept:
            yield LogPiece(kept, replaced)
            replaced = 0


def _after_skipped(start: int, skip: int, last: LastIds, skim: ReadKeys) -> int:
    """Return the id of the remaining row number *skip*."""
    after = start
    while found := skim(after):
        for after, item_key in found:
            skip -= not is_replaced(after, item_key, last)
            if not skip:
                return after
    return after
