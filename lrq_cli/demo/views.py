"""What the demonstration shows while it goes on."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SiteView:
    """One site that receives. `owed` and `applied` count entries from the beginning, those of its snapshot included.

    `delivered` counts those that came as the log; `unacknowledged` is the lag that `lrq status` tells, in entries.
    Latencies are in milliseconds, of entries that were written while the site was live.
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
        """How many entries it has yet to apply."""
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
        """How many entries the sites have applied from the log, taken together."""
        return sum(site.delivered for site in self.sites.values())
