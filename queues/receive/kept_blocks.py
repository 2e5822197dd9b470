"""The next blocks of a receive queue, unpacked once and kept between two batches of its subscriber."""

import threading
from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from sqlalchemy import Connection

from queues.receive import log_blocks
from queues.receive.block_entries import LogEntries, ReceivedBlock
from queues.receive.log_blocks import FETCH_BYTES


class History(NamedTuple):
    """The entries behind the numbers of a queue, which are the same while all fields are the same.

    A sink can roll back and receive other entries with the same numbers, on the same branch. A rollback changes
    `version`, the version of the subscriber's marks.
    """

    queue_id: int
    sync_id: str
    branch: str
    version: int


class KeptBlock:
    """One block, unpacked once, by the first thread that needs its entries; thread-safe."""

    __slots__ = ("_guard", "_packed", "_unpacked", "end_seq", "size", "tick_seq")

    def __init__(self, packed: ReceivedBlock) -> None:
        """Keep *packed* until its entries are needed."""
        self.end_seq = packed.end_seq
        self.tick_seq = packed.tick_seq
        self.size = packed.size
        self._guard = threading.Lock()
        self._packed: ReceivedBlock | None = packed
        self._unpacked: LogEntries | None = None

    @property
    def is_packed(self) -> bool:
        """Whether no thread has unpacked the block yet."""
        return self._unpacked is None

    def entries(self) -> LogEntries:
        """Return the entries; raise `NeedsFullSyncError` if the block is damaged."""
        with self._guard:
            if self._unpacked is None:
                assert self._packed is not None
                self._unpacked = LogEntries(self._packed)
                self._packed = None
            return self._unpacked


class KeptBlocks:
    """The blocks of a batch and about two megabytes after it, all of one history; not thread-safe."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._history: History | None = None
        # The kept blocks have all entries between `_begin` and `_covered`; entries up to `_known` are received.
        self._begin = self._known = self._covered = 0
        self._blocks: list[KeptBlock] = []

    def open(self, history: History, after: int, known: int) -> None:
        """Keep only blocks of *history* that have entries after *after*; entries up to *known* are received."""
        self._known = known
        if history != self._history or after < self._begin:
            self._blocks, self._begin, self._covered = [], after, after
        self._history = history
        self.drop_before(after)

    def add(self, known: int, found: Sequence[ReceivedBlock], last: int) -> None:
        """Keep also *found*, the next blocks after *known*, unless there are other blocks between them and the kept.

        *last* is the end of the last block.
        """
        if known > self._covered:
            return
        self._blocks += map(KeptBlock, found)
        if found:
            self._covered = found[-1].end_seq
        if last <= self._covered:
            self._covered = max(self._covered, self._known)

    def moved(self, version: int) -> None:
        """Note that the owner of the blocks has itself moved the subscriber's marks from *version* to the next."""
        if self._history is not None and self._history.version == version:
            self._history = self._history._replace(version=version + 1)

    def forget(self) -> None:
        """Keep nothing."""
        self._history, self._blocks = None, []

    def is_of(self, history: History) -> bool:
        """Return whether the kept blocks are those of *history*."""
        return self._history == history

    @property
    def covered(self) -> int:
        """The number up to which the kept blocks have all entries of their history; -1 without a history."""
        return -1 if self._history is None else self._covered

    @property
    def reach(self) -> int:
        """The number up to which the kept blocks have all received entries."""
        return min(self._covered, self._known)

    @property
    def has_all(self) -> bool:
        """Whether the kept blocks reach to the last entry that was received at the last look."""
        return self.reach == self._known

    def following(self, connection: Connection | None, after: int, upto: int) -> LogEntries | None:
        """Return the first block with entries between *after* and *upto*; None if there is none.

        Raises `NeedsFullSyncError` if the block is damaged. Call `open` before. No *connection* is needed up to
        `reach`.
        """
        assert self._history is not None
        if after >= upto:
            return None
        place = self._place(after)
        if place == len(self._blocks) and self._covered < upto:
            # The earlier blocks stay: the batch that they belong to may be repeated.
            assert connection is not None
            self._fetch(connection, max(after, self._covered), upto)
        if place == len(self._blocks):
            return None
        unpacked = self._blocks[place].entries()
        return unpacked if unpacked.first <= upto else None

    def read_ahead(self, connection: Connection, after: int, upto: int) -> None:
        """Read the blocks up to *upto* now, if fewer than about a megabyte of them follow *after*."""
        begin = max(after, self._covered)
        if begin < upto and sum(block.size for block in self._blocks[self._place(after) :]) < FETCH_BYTES:
            self._fetch(connection, begin, upto)

    def packed_after(self, after: int) -> list[KeptBlock]:
        """Return the kept blocks with entries after *after* that no thread has unpacked."""
        return [block for block in self._blocks[self._place(after) :] if block.is_packed]

    @property
    def size(self) -> int:
        """The size of all kept blocks, in bytes of `ReceivedBlock.size`."""
        return sum(block.size for block in self._blocks)

    def drop_before(self, after: int) -> None:
        """Keep only blocks that have entries after *after*."""
        self._begin = max(self._begin, after)
        self._covered = max(self._covered, after)
        del self._blocks[: self._place(after)]

    def next_tick(self, after: int) -> int:
        """Return the number before the tick of the block after *after*, which `following` found to be damaged."""
        return self._blocks[self._place(after)].tick_seq

    def _fetch(self, connection: Connection, after: int, upto: int) -> None:
        assert self._history is not None
        found = log_blocks.next_blocks(connection, self._history.queue_id, after, upto)
        self._blocks += map(KeptBlock, found)
        self._covered = found[-1].end_seq if found else upto

    def _place(self, after: int) -> int:
        """Return the place of the first block that ends after *after*."""
        return bisect_right(self._blocks, after, key=_END)


_END: Final = attrgetter("end_seq")
