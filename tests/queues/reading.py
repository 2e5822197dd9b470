"""A reader that takes ticks, closes segments and trims as the server does."""

from sqlalchemy import Engine

from queues.database.leases import Lease
from queues.positions import Tick
from queues.send_log.opening import open_log
from queues.send_log.port import Log, LogRow, Retention, TickLimits, TickRows, TrimResult

_USUAL = Retention()


class Reader:
    """Takes ticks until the log has no more, and keeps them."""

    def __init__(self, engine: Engine, lease: Lease, limits: TickLimits | None = None) -> None:
        self.log: Log = open_log(engine, limits)
        self.lease = lease
        self.groups: list[TickRows] = []

    @property
    def last(self) -> Tick | None:
        return self.groups[-1].tick if self.groups else None

    def drain(self) -> list[LogRow]:
        """Take ticks until the log has no more; return all rows since the last call."""
        rows: list[LogRow] = []
        while (group := self.log.take_tick(self.lease, self.last)) is not None:
            self.groups.append(group)
            rows += group.rows or []
        return rows

    def rotate(self) -> bool:
        """Begin a new segment, so that the current one can be trimmed; return whether there was an entry in it."""
        return self.log.rotate(self.lease, segment_bytes=1, segment_seconds=0)

    def trim(self, retention: Retention = _USUAL) -> TrimResult:
        """Trim the segments that all sessions have acknowledged, or that are beyond *retention*."""
        return self.log.trim(self.lease, retention)

    def owed(self, destination: str) -> list[bytes]:
        """Return the payloads for one destination in the ticks that were taken."""
        return [
            row.payload for group in self.groups for row in group.rows or [] if destination in group.sets[row.tag_set]
        ]
