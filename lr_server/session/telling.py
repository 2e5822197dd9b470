"""Tell the sink of a session again and again which member of its group of replicas serves."""

import math
from collections.abc import Callable

from queues.clock import Clock
from queues.replica_groups import ActiveMember
from queues.wire.replication_pb2 import ActiveMember as WireMember
from queues.wire.replication_pb2 import Frame


class Telling:
    """The word of one stream: at once after a change, and otherwise once in *pause* seconds.

    *active* returns None for a site without a group, and while this source does not know.
    """

    def __init__(self, active: Callable[[], ActiveMember | None], pause: float, clock: Clock) -> None:
        self._active = active
        self._pause = pause
        self._clock = clock
        self._told: ActiveMember | None = None
        self._told_at = -math.inf

    @property
    def pause(self) -> float:
        """The longest time without a frame, in seconds."""
        return math.inf if self._active() is None else self._pause

    @property
    def is_due(self) -> bool:
        """Whether the next frame tells the member; without other work, an empty frame does."""
        active = self._active()
        is_old = self._clock.monotonic() - self._told_at >= self._pause
        return active is not None and (active != self._told or is_old)

    def added(self, frame: Frame) -> Frame:
        """Return *frame*, with the member that serves if the time has come."""
        active = self._active()
        if active is not None and self.is_due:
            frame.active.CopyFrom(WireMember(group=active.name, member=active.member, generation=active.generation))
            self._told, self._told_at = active, self._clock.monotonic()
        return frame
