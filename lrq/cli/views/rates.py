"""Compute rates from two readings of a site's status. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from discovery.site_status import SiteStatus

#: The name of a counter: ("log",), ("session", client, destination), ("received", queue), ("applied", queue).
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """A status and its reading time, in seconds of a monotonic clock."""

    status: SiteStatus
    at: float

    def counters(self) -> Iterator[tuple[Key, int]]:
        """Yield the value of each counter."""
        yield ("log",), self.status.log.seq
        for session in self.status.sessions:
            yield ("session", session.client, session.destination), session.acked_seq
        for queue in self.status.receive_queues:
            yield ("received", queue.name), queue.received_total
            yield ("applied", queue.name), queue.applied_total


@dataclass(frozen=True, slots=True)
class Rates:
    """Entries per second by counter; an unknown rate has no key."""

    by_key: Mapping[Key, float] = field(default_factory=dict)

    def of(self, *key: str) -> float | None:
        """Return the rate of one counter; None if it is unknown."""
        return self.by_key.get(key)


def rates(before: Look, now: Look) -> Rates:
    """Return the growth per second of each counter; a counter that is new or has fallen has no rate."""
    seconds = now.at - before.at
    earlier = dict(before.counters())
    return Rates(
        {
            key: (count - earlier[key]) / seconds
            for key, count in now.counters()
            if seconds > 0 and earlier.get(key, count + 1) <= count
        }
    )
