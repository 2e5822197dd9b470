"""The snapshots in a leader's file as its sessions may send them: a later leader keeps their bases.

A provider reads the file at any time, so the base of its snapshot may be an unreleased tick. A later leader may have
replaced that tick.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import Engine

from queues.database.transactions import reading
from queues.positions import Position
from queues.send_log.history import branch_starts
from queues.send_log.reads import tick_numbered
from queues.send_snapshot import SnapshotState, SnapshotSync


class ShownSnapshots:
    """Shows sessions the requests for snapshots in *engine*'s file, while its member leads."""

    def __init__(self, engine: Engine, released: Callable[[], int]) -> None:
        """*released* returns the number of the newest released tick."""
        self._engine = engine
        self._released = released

    def shown(self, found: SnapshotSync) -> SnapshotSync:
        """Return *found* as sessions may see it.

        A complete snapshot whose base is not released counts as being built. One whose base was replaced counts as
        cancelled, so the session negotiates, and asks for another.
        """
        if found.state is not SnapshotState.READY:
            return found
        # The number comes first: a tick that is released later may still be replaced during the read.
        upto = self._released()
        with reading(self._engine) as connection:
            tick = tick_numbered(connection, upto)
            state = state_shown(found.base, branch_starts(connection), 0 if tick is None else tick.end_seq)
        return found if state is SnapshotState.READY else replace(found, state=state)


def state_shown(base: Position, history: Sequence[tuple[str, int]], released_seq: int) -> SnapshotState:
    """Return the state in which sessions see a complete snapshot with *base*. Pure.

    *history* has each branch of the log with its beginning, oldest first. *released_seq* ends the newest released tick.
    """
    later = [start for _, start in history[1:]]
    ends = {branch: end for (branch, _), end in zip(history, [*later, None], strict=True)}
    end = ends.get(base.branch, -1)
    if end is not None and base.seq > end:
        return SnapshotState.CANCELLED
    return SnapshotState.READY if base.seq <= released_seq else SnapshotState.BUILDING
