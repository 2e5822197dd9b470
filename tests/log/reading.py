"""Takes ticks as the server does."""

from sqlalchemy import Engine

from queues.leases import Lease
from queues.log.opening import open_log
from queues.log.port import Group, Limits, Log, LogRow
from queues.positions import Tick


class Reader:
    """Takes ticks until nothing is left and keeps them."""

    def __init__(self, engine: Engine, lease: Lease, limits: Limits | None = None) -> None:
        self.log: Log = open_log(engine, limits)
        self.lease = lease
        self.groups: list[Group] = []

    @property
    def last(self) -> Tick | None:
        return self.groups[-1].tick if self.groups else None

    def drain(self) -> list[LogRow]:
        """Take ticks until there is nothing; return all rows since the last call."""
        rows: list[LogRow] = []
        while (group := self.log.take_tick(self.lease, self.last)) is not None:
            self.groups.append(group)
            rows += group.rows or []
        return rows

    def owed(self, destination: str) -> list[bytes]:
        """Return the payloads that the live groups hold for a destination."""
        return [
            row.payload for group in self.groups for row in group.rows or [] if destination in group.sets[row.tag_set]
        ]
