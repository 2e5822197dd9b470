"""The copy of another member's log, for a store that does not count yet."""

from collections.abc import Sequence
from typing import Protocol

from lr_server.protocol.agreement.history import GenerationStart, TickHistory, TickMark
from lr_server.ring.store import TokenStore, mark_of
from queues.errors import CorruptFrameError, DataLossError, TrimmedError
from queues.send_log.ring.log_base import LogBase, StoredRequest
from queues.send_log.ring.tick_contents import TickContent


class LogSource(Protocol):
    """The logs of the other members. Each call waits for a member."""

    def pull(self, rank: int, after: int) -> Sequence[TickContent]:
        """Return the next ticks of the member *rank* after number *after*, at least one.

        Raises `TransientError`, and `TrimmedError` if the next tick is trimmed there.
        """
        ...

    def pull_base(self, rank: int) -> LogBase:
        """Return the beginning of the trimmed log of the member *rank*; raise `TransientError`."""
        ...

    def pull_requests(self, rank: int, after: int, upto: int) -> Sequence[StoredRequest]:
        """Return the next requests that the member *rank* has between two entries; raise `TransientError`."""
        ...


def copy_log(store: TokenStore, members: LogSource, source: int, history: TickHistory) -> None:
    """Pull the ticks of *history* that *store* lacks from the member *source*.

    The last common tick comes again: its random numbers prove that both stores have the same ticks before. A store that
    ends before the kept ticks of *source* begins anew, and so does one with another history. A copy that was broken off
    never counts, so it may be repeated. Raises `TrimmedError` if *source* trims ticks during the copy.
    """
    common = store.history().common_end(history)
    try:
        _pull(store, members, source, history, max(common - 1, 0))
    except (DataLossError, TrimmedError):
        _copy_anew(store, members, source, history)


def _copy_anew(store: TokenStore, members: LogSource, source: int, history: TickHistory) -> None:
    try:
        _pull(store, members, source, history, 0)
    except TrimmedError:
        _pull(store, members, source, history, _copy_base(store, members, source, history))


def _copy_base(store: TokenStore, members: LogSource, source: int, history: TickHistory) -> int:
    """Replace the log by the beginning of the trimmed log of *source*; return the number of its last tick."""
    base = members.pull_base(source)
    end = TickMark(base.end.generation, base.end.tick.number)
    starts = tuple(GenerationStart(each.generation, each.seal) for each in base.branches)
    if not history.holds(end) or history.until(end.seq).starts != starts:
        raise CorruptFrameError(f"rank {source} has sent the beginning of another log than its history has")
    store.copy_base(base)
    after = 0
    while page := members.pull_requests(source, after, base.end.tick.end_seq):
        store.copy_requests(page)
        after = page[-1].place.seq
    return end.seq


def _pull(store: TokenStore, members: LogSource, source: int, history: TickHistory, end: int) -> None:
    store.copy(end, ())
    while end < history.end:
        page = [each for each in members.pull(source, end) if each.tick.number <= history.end]
        if not page or not all(history.holds(mark_of(content)) for content in page):
            raise CorruptFrameError(f"rank {source} has sent other ticks than its history has")
        store.copy(end, page)
        end = page[-1].tick.number
