"""The status of the log of a site: its ticks, and the entries that no site gets."""

from dataclasses import asdict, dataclass
from typing import Any

from queues.clock import iso
from queues.names import ClientName, SiteId
from queues.send_log.trim_blockers import TrimBlocker
from queues.send_log.unordered import Unordered


@dataclass(frozen=True, slots=True)
class OrderingStatus:
    """The entries that no site gets, because they have no place in the order of commits (PostgreSQL only).

    `unordered` holds the counts of the last run of trim; on the tables in `untriggered` the ordering trigger is off.
    """

    unordered: tuple[Unordered, ...] = ()
    untriggered: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the last two items of `log`, which `lrq trim --json` has too."""
        return {"unordered": [asdict(each) for each in self.unordered], "untriggered": list(self.untriggered)}


@dataclass(frozen=True, slots=True)
class UnknownStatus:
    """The entries for a destination that is no peer: `entries` wait, the oldest one for `oldest_seconds`.

    There are `more` than can be counted. `dropped` entries were trimmed. `is_peer`: the site has become a peer since.
    """

    client: ClientName
    destination: SiteId
    entries: int
    more: bool
    oldest_seconds: float
    dropped: int
    is_peer: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return an item of `unknown_destinations`, which `lrq trim --json` has too."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LogStatus:
    """The log-entry queue: `seq` ends its newest tick, and entries up to `trimmed_seq` are gone.

    `waiting` counts committed entries in no tick yet, up to `queues.counts.COUNTED`. `last_tick_us` is None without a
    tick. `trim_blockers` are transactions of others that use tables of the log for minutes (PostgreSQL only).
    `unlogged` are all tables of lrq that a crash empties (PostgreSQL only). `hiding` are all those of which row level
    security hides rows from the role that asks. `altering` are detached partitions, and those whose rows a
    trigger, rule or view of others may change.
    """

    branch: str
    seq: int
    trimmed_seq: int
    last_tick_us: int | None
    waiting: int
    ordering: OrderingStatus = OrderingStatus()
    unknown: tuple[UnknownStatus, ...] = ()
    trim_blockers: tuple[TrimBlocker, ...] = ()
    unlogged: tuple[str, ...] = ()
    hiding: tuple[str, ...] = ()
    altering: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the value of `log`."""
        return {
            "branch": self.branch,
            "seq": self.seq,
            "trimmed_seq": self.trimmed_seq,
            "last_tick_at": None if self.last_tick_us is None else iso(self.last_tick_us),
            "waiting": self.waiting,
            **self.ordering.as_json(),
            "unknown_destinations": [each.as_json() for each in self.unknown],
            "trim_blockers": [each._asdict() for each in self.trim_blockers],
            "unlogged": list(self.unlogged),
            "hiding": list(self.hiding),
            "altering": list(self.altering),
        }
