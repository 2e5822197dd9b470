"""The work of a stream: the log, a snapshot, or the end of the stream, from a position on."""

from collections.abc import Callable
from dataclasses import dataclass

from lr_server.protocol.answers import SentLog, SentSnapshot
from queues.positions import Position
from queues.send_snapshot import SnapshotSync


@dataclass(frozen=True, slots=True)
class LogWork:
    """Send the log after `position`; the session has no entries between `position` and `read_after`."""

    position: Position
    read_after: int
    sent: SentLog


@dataclass(frozen=True, slots=True)
class SnapshotWork:
    """Send this snapshot; the sink has the first `after_row` rows.

    `look` returns the snapshot as it is now. `mixed` is called if the sink may have rows of another try.
    """

    snapshot: SnapshotSync
    after_row: int
    sent: SentSnapshot
    look: Callable[[], SnapshotSync | None]
    mixed: Callable[[], None]


@dataclass(frozen=True, slots=True)
class EndWork:
    """Send the end of the stream, after the frames of the log in `sent`."""

    sent: SentLog


Work = LogWork | SnapshotWork | EndWork
