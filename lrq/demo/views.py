"""The figures that the demonstration shows while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SiteView:
    """One sink. `owed` and `applied` count all entries since the beginning, with those in its snapshot.

    `delivered` counts the entries from the log; `unacknowledged` is the lag of `lrq status`, in entries.
    `p50` and `p99` are latencies in milliseconds, of entries written while the site was live.
    """

    session: str = ""
    unacknowledged: int = 0
    airports: int = 0
    owed: int = 0
    applied: int = 0
    delivered: int = 0
    behind_most: int = 0
    p50: float = 0.0
    p99: float = 0.0
    is_live: bool = False

    @property
    def behind(self) -> int:
        """The number of entries still to apply."""
        return self.owed - self.applied


@dataclass(frozen=True, slots=True)
class View:
    """All sites at one moment; bytes are those of payloads."""

    airports: int = 0
    entries: int = 0
    bytes_stored: int = 0
    bytes_as_copies: int = 0
    committed: int = 0
    rolled_back: int = 0
    sites: Mapping[str, SiteView] = field(default_factory=dict)

    @property
    def delivered(self) -> int:
        """The number of log entries applied at all sites together."""
        return sum(site.delivered for site in self.sites.values())
