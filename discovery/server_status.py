"""The status of the servers of a site, and of the leases that processes hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from discovery.ring_status import RingStatus
from queues.clock import iso
from queues.leadership import NO_TOPOLOGY, TopologyFacts

#: The lease that makes a server the owner of its site.
SERVER_LEASE: Final = "server"


@dataclass(frozen=True, slots=True)
class OwnerStatus:
    """The last process that took a lease; `alive` while the lease has not expired.

    `lapsed_us` is when the lease has expired although the process has not released it; None otherwise.
    """

    lease: str
    owner: str
    generation: int
    alive: bool
    lapsed_us: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return an item of `owners`."""
        return {
            "lease": self.lease,
            "owner": self.owner,
            "generation": self.generation,
            "alive": self.alive,
            "lapsed_at": None if self.lapsed_us is None else iso(self.lapsed_us),
        }


@dataclass(frozen=True, slots=True)
class IngestStatus:
    """The work for producers at one server since its start.

    `requests` and their `messages` have passed the checks, and `groups` were stored. `refusals` counts by kind.
    `waiting` requests are not stored yet, and `streams` are open. `forwarded` requests went on to the leading server.
    """

    requests: int = 0
    messages: int = 0
    refusals: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    streams: int = 0
    groups: int = 0
    forwarded: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the value of `ingest`."""
        return {
            "requests": self.requests,
            "messages": self.messages,
            "refusals": dict(self.refusals),
            "waiting": self.waiting,
            "streams": self.streams,
            "groups": self.groups,
            "forwarded": self.forwarded,
        }


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The server that answers: `owner` while it takes the site's ticks; it leads so many `ranges` of sessions.

    `reason` explains both. `endpoints` and `metrics` are the addresses where it listens; `troubles` has a sentence for
    each failing part. `ingest` is None at a server that serves no producers, and `ring` at one without a member.
    `topology` tells the place of its peers.
    """

    owner: bool
    reason: str
    endpoints: tuple[str, ...] = ()
    metrics: str = ""
    name: str = ""
    ranges: int = 0
    troubles: Mapping[str, str] = field(default_factory=dict)
    ingest: IngestStatus | None = None
    topology: TopologyFacts = NO_TOPOLOGY
    ring: RingStatus | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the value of `server`."""
        return {
            "owner": self.owner,
            "reason": self.reason,
            "endpoints": list(self.endpoints),
            "metrics": self.metrics,
            "troubles": dict(self.troubles),
            "name": self.name,
            "ranges": self.ranges,
            "topology": self.topology._asdict(),
            **({"ingest": self.ingest.as_json()} if self.ingest is not None else {}),
            **({"ring": self.ring.as_json()} if self.ring is not None else {}),
        }


@dataclass(frozen=True, slots=True)
class SiteServer:
    """One of the servers that share the work of the site, since `since_us`; it leads so many `ranges` of sessions.

    `alive`: its row has not expired. `sequencer`: the server takes the ticks of the site, and trims. `endpoints` are
    those at which the other servers reach it. `topology` tells the place of its peers; an older lrq tells none.
    `sink_trouble` is the reason why the server can store no received entry of some session; empty otherwise. Other
    reasons are a lack of threads, a log that takes no tick for long, and an attachment that fails.
    """

    name: str
    endpoints: tuple[str, ...]
    alive: bool
    since_us: int
    ranges: int
    sequencer: bool
    topology: TopologyFacts = NO_TOPOLOGY
    sink_trouble: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return an item of `servers`."""
        return {
            "name": self.name,
            "endpoints": list(self.endpoints),
            "alive": self.alive,
            "since": iso(self.since_us),
            "ranges": self.ranges,
            "sequencer": self.sequencer,
            "topology": self.topology._asdict(),
            "sink_trouble": self.sink_trouble,
        }
