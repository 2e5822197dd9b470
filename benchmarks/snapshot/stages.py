"""The stages of a snapshot between its request and "applied", and their seconds.

Each stage ends with a fact that the two databases show, or with a step of the provider. A stage begins where the one
before ends. A thread looks for the facts every 20 ms, so a stage is exact to about that.
"""

import threading
from collections.abc import Mapping
from time import perf_counter
from typing import Final

from sqlalchemy import Connection, Engine, func, select

from queues import send_snapshot
from queues.clock import SYSTEM_CLOCK
from queues.database.tables.receive import receive_marks
from queues.database.tables.snapshots import snapshot_blocks
from queues.database.transactions import reading
from queues.send_snapshot import SnapshotState

#: The stages in their order, by the fact that ends each.
STAGES: Final = {
    "provider": "wait for the transmitter",
    "built": "plan: the cut, and the provider until it has rows to write",
    "first_block": "build: start of the job, until the first block is stored",
    "last_block": "build: rows read, packed and stored",
    "ready": "publish at the source",
    "first_staged": "the server notices, the first rows arrive",
    "last_staged": "transfer and staging",
    "applied": "publish at the sink, and its word at the source",
}
_LOOK: Final = 0.02


class Watch:
    """Records the time of each fact of one snapshot."""

    def __init__(self, source: Engine, sink: Engine, rows: int) -> None:
        self._source, self._sink, self._rows = source, sink, rows
        self._times: dict[str, float] = {}
        self._began = perf_counter()
        self._ended = threading.Event()

    def note(self, fact: str) -> None:
        """Record that *fact* holds, unless it is known already."""
        self._times.setdefault(fact, perf_counter() - self._began)

    def follow(self, sync_id: str) -> Mapping[str, float]:
        """Wait until the snapshot is applied; return the seconds since the start of each fact.

        Raises `RuntimeError` with the error of a failed attempt.
        """
        while "applied" not in self._times:
            with reading(self._source) as connection:
                self._look_at_source(connection, sync_id)
            if "ready" in self._times:
                with reading(self._sink) as connection:
                    self._look_at_sink(connection, sync_id)
            SYSTEM_CLOCK.wait(self._ended, _LOOK)
        return dict(self._times)

    def _look_at_source(self, connection: Connection, sync_id: str) -> None:
        found = send_snapshot.find(connection, sync_id)
        if found is None or found.error:
            raise RuntimeError(found.error if found else "the snapshot is gone")
        if found.state is SnapshotState.BUILDING and "provider" in self._times and "last_block" not in self._times:
            blocks = snapshot_blocks.c
            of_build = blocks.sync_id == found.stored_under
            written = connection.execute(select(func.sum(blocks.row_count)).where(of_build)).scalar() or 0
            if written:
                self.note("first_block")
            if written >= self._rows:
                self.note("last_block")
        if found.state in (SnapshotState.READY, SnapshotState.APPLIED):
            self.note("ready")
        if found.state is SnapshotState.APPLIED:
            self.note("applied")

    def _look_at_sink(self, connection: Connection, sync_id: str) -> None:
        marks = receive_marks.c
        own = (marks.staging_sync_id == sync_id) | (marks.sync_id == sync_id)
        found = connection.execute(
            select(marks.staging_rows, marks.sync_id).where(own).order_by(marks.version.desc()).limit(1)
        ).first()
        if found is None:
            return
        if found.staging_rows:
            self.note("first_staged")
        if found.staging_rows >= self._rows or found.sync_id == sync_id:
            self.note("last_staged")


def durations(times: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each stage; a stage whose end no look has seen has none."""
    found: dict[str, float] = {}
    ends, end = {}, times["applied"]
    for fact in reversed(STAGES):
        end = min(times.get(fact, end), end)
        ends[fact] = end
    before = 0.0
    for fact in STAGES:
        found[fact] = ends[fact] - before
        before = ends[fact]
    return found
