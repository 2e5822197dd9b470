"""The next blocks of a receive queue, unpacked once and kept between two batches of its subscriber."""

from typing import NamedTuple

from sqlalchemy import Connection

from queues.receive import log_blocks
from queues.receive.log_blocks import LogEntries, StoredBlock


class History(NamedTuple):
    """The entries behind the numbers of a queue. They are the same while all of these are the same.

    A sink can roll back and receive other entries with the same numbers, on the same branch. A rollback changes
    `version`, the version of the subscriber's marks.
    """

    queue_id: int
    sync_id: str
    branch: str
    version: int


class KeptBlocks:
    """About a megabyte of blocks of one history, or a single larger block; not thread-safe."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._history: History | None = None
        self._begin = 0
        self._blocks: list[StoredBlock | LogEntries] = []

    def open(self, history: History, after: int) -> None:
        """Keep only blocks of *history* that have entries after *after*."""
        if history != self._history or after < self._begin:
            self._blocks = []
        self._history, self._begin = history, after
        while self._blocks and self._blocks[0].end_seq <= after:
            del self._blocks[0]

    def moved(self, version: int) -> None:
        """Note that the owner of the blocks has itself moved the subscriber's marks from *version* to the next."""
        if self._history is not None and self._history.version == version:
            self._history = self._history._replace(version=version + 1)

    def forget(self) -> None:
        """Keep nothing."""
        self._history, self._blocks = None, []

    def following(self, connection: Connection, after: int, upto: int) -> LogEntries | None:
        """Return the first block with entries between *after* and *upto*; None if there is none.

        Raises `NeedsFullSyncError` if the block is damaged. Call `open` before.
        """
        assert self._history is not None
        if after >= upto:
            return None
        if not self._blocks or self._blocks[-1].end_seq <= after:
            found = log_blocks.next_blocks(connection, self._history.queue_id, after, upto)
            # The earlier blocks stay: the batch that they belong to may be repeated.
            self._blocks += found
        for place, block in enumerate(self._blocks):
            if block.end_seq > after:
                unpacked = block if isinstance(block, LogEntries) else LogEntries(block)
                self._blocks[place] = unpacked
                return unpacked if unpacked.first <= upto else None
        return None

    def next_tick(self, after: int) -> int:
        """Return the number before the tick of the block after *after*, which `following` found to be damaged."""
        packed = (block for block in self._blocks if isinstance(block, StoredBlock) and block.end_seq > after)
        return next(packed).tick_seq
