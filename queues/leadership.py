"""The servers of a site, and the ranges that they lead, as one read of the database shows them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class Lease:
    """One acquisition of `name`; every later acquisition has a higher `generation`."""

    name: str
    owner: str
    generation: int


class TopologyFacts(NamedTuple):
    """The peers that a server follows: the place that it reads them from, and their version.

    `trouble` is a sentence while the newest peers cannot be read or are wrong. Then the server keeps `version`.
    """

    source: str = ""
    version: int = 0
    trouble: str = ""


#: The facts of a server that tells none, such as an older lrq.
NO_TOPOLOGY: Final = TopologyFacts()


class ServerRow(NamedTuple):
    """A server of the site; it counts as living before `expires_us`. Times are in microseconds since 1970 (UTC)."""

    server: str
    endpoints: tuple[str, ...]
    started_us: int
    expires_us: int
    topology: TopologyFacts = NO_TOPOLOGY
    sink_trouble: str = ""


class RangeRow(NamedTuple):
    """The last acquisition of a range; `server` is empty after a release, and `generation` stays."""

    number: int
    server: str
    generation: int


class ServersView(NamedTuple):
    """The result of one read, at the database's time `now_us`.

    `servers` includes expired servers for some time. `ranges` is in the order of numbers; a site whose servers have not
    begun has none. `sequencer` is the lease `server`, if it has not expired. `branch` is the site's branch.
    """

    now_us: int
    servers: tuple[ServerRow, ...]
    ranges: tuple[RangeRow, ...]
    sequencer: Lease | None
    branch: str

    @property
    def living(self) -> Mapping[str, ServerRow]:
        """The servers that have not expired, by their names."""
        return {row.server: row for row in self.servers if row.expires_us > self.now_us}

    @property
    def has_older_sequencer(self) -> bool:
        """Whether a version of lrq that knows no ranges works for the whole site."""
        return self.sequencer is not None and all(row.server != self.sequencer.owner for row in self.servers)


def range_lease(row: RangeRow) -> Lease:
    """Return the acquisition of a range as a lease, named `range 7`."""
    return Lease(f"range {row.number}", row.server, row.generation)


def range_number(lease: Lease) -> int:
    """Return the number of the range that *lease* is an acquisition of."""
    return int(lease.name.removeprefix("range "))
