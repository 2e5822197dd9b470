"""The objects and limits that one stream shares with the work it carries out."""

from collections.abc import Callable
from dataclasses import dataclass

from lr_server.session.frame_sources import FrameSources
from lr_server.session.inflight import Inflight
from lr_server.session.replaced import ReplacedCount
from lr_server.session.sink_progress import SinkProgress
from lr_server.session.traffic import SessionTraffic
from queues.clock import Clock
from queues.wire.replication_pb2 import SessionId


@dataclass(frozen=True, slots=True, eq=False)
class StreamContext:
    """The facts of one stream; the lane of snapshots tells the streams apart by this object.

    `changed` is called after each change of the window or of the progress.

    `branches` are those of the log at the negotiation. A tick of a later branch breaks the stream. The sink may have
    entries that the later branch lacks, and only a negotiation finds them.
    """

    session: SessionId
    paths: FrameSources
    branches: frozenset[str]
    inflight: Inflight
    replaced: ReplacedCount
    traffic: SessionTraffic
    progress: SinkProgress
    batch_bytes: int
    heartbeat: float
    clock: Clock
    changed: Callable[[], None]
