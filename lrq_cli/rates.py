"""How fast things go, from two looks at a site's status. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

#: What counts: ("log",), ("session", client, destination), ("received", queue), ("applied", queue).
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """A status and the time in seconds, on a clock that only grows, at which it was read."""

    status: Mapping[str, Any]
    at: float

    def counters(self) -> Iterator[tuple[Key, int]]:
        """Yield everything that only grows."""
        yield ("log",), self.status["log"]["seq"]
        for session in self.status["sessions"]:
            yield ("session", session["client"], session["destination"]), session["acked_seq"]
        for queue in self.status["receive_queues"]:
            yield ("received", queue["name"]), queue["received_total"]
            yield ("applied", queue["name"]), queue["applied_total"]


@dataclass(frozen=True, slots=True)
class Rates:
    """Entries per second; None where it is not known."""

    by_key: Mapping[Key, float] = field(default_factory=dict)

    def of(self, *key: str) -> float | None:
        """Return the rate of one counter."""
        return self.by_key.get(key)


def rates(before: Look, now: Look) -> Rates:
    """Return how fast each counter grew between two looks; one that fell began anew, so its rate is not known."""
    seconds = now.at - before.at
    earlier = dict(before.counters())
    return Rates(
        {
            key: (count - earlier[key]) / seconds
            for key, count in now.counters()
            if seconds > 0 and earlier.get(key, count + 1) <= count
        }
    )
