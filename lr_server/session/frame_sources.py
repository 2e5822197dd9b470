"""The sources of the frames that a stream sends."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lr_server.session.outgoing import Outgoing
from lr_server.session.snapshot_lane import SnapshotLane
from lr_server.session.work import SnapshotWork
from queues.positions import Tick
from queues.replica_groups import ActiveMember
from queues.wire.replication_pb2 import Frame
from sink.rests import Rest

#: A frame, its last row number, and its size in bytes.
SnapshotFrame = tuple[Frame, int, int]


def not_a_member() -> None:
    """Return no member: the site of the session is in no group of replicas."""


@dataclass(frozen=True, slots=True)
class FrameSources:
    """The sources of a stream's frames: the log, the snapshots, the newest tick, and the member that serves.

    All streams of a server share its `lane` of snapshots.
    """

    outgoing: Outgoing
    snapshot_frames: Callable[[SnapshotWork], Iterator[SnapshotFrame | Rest]]
    newest: Callable[[], Tick | None]
    lane: SnapshotLane
    active: Callable[[], ActiveMember | None] = not_a_member
