"""The ticks of a ring with all that they hold, and the rule by which one follows another. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from queues.destinations import set_number
from queues.entry_headers import text_size
from queues.errors import CorruptFrameError, DataLossError
from queues.names import ClientName
from queues.positions import Tick, Visibility
from queues.send_log.outbox import SourceTransaction
from queues.send_log.port import LogRow, size_of
from queues.send_log.ring.tick_productions import TickProduction, fit


class TickContent(NamedTuple):
    """One tick of a token with all that it holds. Every member stores the same.

    The first tick of a generation, its seal, has no rows, and begins a branch. `previous_uid` is the random number of
    the tick before, 0 before the first tick. `sets` has the destinations of each tag set of the rows, as text.
    `productions` are the requests of producers among the transactions of the tick, without those that nothing asks for
    any more.
    """

    generation: int
    tick: Tick
    previous_uid: int
    sets: Mapping[int, str]
    rows: Sequence[LogRow]
    productions: Sequence[TickProduction] = ()


class TickStamp(NamedTuple):
    """The random number and the time of a new tick, in microseconds since 1970."""

    uid: int
    created_us: int


class LogEnd(NamedTuple):
    """The newest tick of a log, and the generation that took it."""

    generation: int
    tick: Tick


def empty_end(branch: str) -> LogEnd:
    """Return the end of a log without ticks, which began with *branch*."""
    start = Tick(0, 0, branch, 0, 0, 0, is_large=False, mark=str(Visibility()), created_us=0, omits_replaced=True)
    return LogEnd(0, start)


def seal_after(end: LogEnd, generation: int, branch: str, stamp: TickStamp) -> TickContent:
    """Return the first tick of *generation*, with which *branch* begins."""
    return TickContent(generation, replace(_next(end.tick, stamp), branch=branch), end.tick.uid, {}, ())


def content_after(
    end: LogEnd,
    transactions: Sequence[SourceTransaction],
    stamp: TickStamp,
    productions: Sequence[TickProduction] = (),
) -> TickContent:
    """Return the next tick of the newest generation, with the entries of *transactions*, which stay together.

    *productions* are those of the transactions that are requests of producers.
    """
    first = _high(end.tick) + 1
    rows: list[LogRow] = []
    sets: dict[int, str] = {}
    for client, entries in transactions:
        transaction = first + len(rows)
        for entry in entries:
            number, text = entry.destinations
            sets[number] = text
            place = first + len(rows)
            rows.append(
                LogRow(transaction, place, place, client, number, entry.item_key, stamp.created_us, entry.payload,
                       entry.headers, entry.partition_key)
            )  # fmt: skip
    tick = replace(
        _next(end.tick, stamp),
        end_seq=end.tick.end_seq + len(rows),
        bytes_total=end.tick.bytes_total + size_of(rows),
        mark=str(Visibility(high=first + len(rows) - 1)),
    )
    return TickContent(end.generation, tick, end.tick.uid, sets, tuple(rows), tuple(productions))


def weight_of(content: TickContent) -> int:
    """Return the bytes of *content* that count for the limits of messages and of memory.

    Item keys and destinations count here too: entries of a few bytes may have many of them.
    """
    keys = filter(None, map(_ITEM_KEY, content.rows))
    return size_of(content.rows) + sum(map(text_size, keys)) + sum(map(text_size, content.sets.values()))


_ITEM_KEY: Callable[[LogRow], str | None] = attrgetter("item_key")


def first_within(contents: list[TickContent], most_bytes: int) -> list[TickContent]:
    """Return the first of *contents* up to *most_bytes* in all, but at least one."""
    fitting = sum(size <= most_bytes for size in accumulate(map(weight_of, contents)))
    return contents[: max(fitting, 1)]


def check_follows(end: LogEnd, content: TickContent) -> None:
    """Raise an error unless *content* may follow the tick at the *end* of a log.

    Raises `DataLossError` if the tick follows another tick of the same number: two members have different histories.
    Raises `CorruptFrameError` if the content contradicts itself.
    """
    tick, before = content.tick, end.tick
    if (tick.number, tick.start_seq) != (before.number + 1, before.end_seq):
        raise CorruptFrameError(f"tick {tick.number} does not follow tick {before.number} with the same entries")
    if content.previous_uid != before.uid:
        raise DataLossError(
            f"tick {tick.number} follows another tick {before.number} than the one in this log: a store was restored "
            "or changed; empty the older store"
        )
    if _contradicts(end, content):
        raise CorruptFrameError(f"tick {tick.number} of generation {content.generation} contradicts itself")


def _next(before: Tick, stamp: TickStamp) -> Tick:
    number, uid = before.number + 1, stamp.uid
    return replace(before, number=number, uid=uid, start_seq=before.end_seq, created_us=stamp.created_us)


def _high(tick: Tick) -> int:
    return Visibility.parse(tick.mark).high


def _contradicts(end: LogEnd, content: TickContent) -> bool:
    tick, rows = content.tick, content.rows
    is_seal = content.generation > end.generation
    if content.generation < end.generation or is_seal == (tick.branch == end.tick.branch):
        return True
    if is_seal == bool(rows) or tick.rows != len(rows) or tick.is_large or not tick.branch:
        return True
    first = _high(end.tick) + 1
    sums = (tick.bytes_total, tick.mark)
    return (
        sums != (end.tick.bytes_total + size_of(rows), str(Visibility(high=first + len(rows) - 1)))
        or [row.id for row in rows] != list(range(first, first + len(rows)))
        or not _are_whole_transactions(rows)
        or not fit(content.productions, rows)
        or any(
            set_number(ClientName(client), content.sets.get(tag_set, "")) != tag_set
            for client, tag_set in {(row.client, row.tag_set) for row in rows}
        )
    )


def _are_whole_transactions(rows: Sequence[LogRow]) -> bool:
    """Each row begins a transaction with its own id, or belongs to the transaction of the row before."""
    starts = not rows or rows[0].transaction == rows[0].id
    return starts and all(row.transaction in (row.id, before.transaction) for before, row in pairwise(rows))


#: The branch of a log without a generation has this number in `lrq_branches`, and generation g has g more.
FIRST_BRANCH: Final = 1
