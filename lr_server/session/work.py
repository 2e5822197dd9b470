"""The work of a stream: the log, a snapshot, or the end of the stream, from a position on."""

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
    """Send this snapshot; the sink has the first `after_row` rows."""

    snapshot: SnapshotSync
    after_row: int
    sent: SentSnapshot


@dataclass(frozen=True, slots=True)
class EndWork:
    """Send the end of the stream, after the frames of the log in `sent`."""

    sent: SentLog


Work = LogWork | SnapshotWork | EndWork
