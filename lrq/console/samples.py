"""The past hour of each session, in bounded memory: its lag for the plot, and the changes of its state. Pure."""

import re
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from discovery.session_status import SessionStatus
from discovery.site_status import SiteStatus

#: The time that a plot shows, and the time between two samples, in seconds.
HOUR: Final = 3600.0
STEP: Final = 10.0
#: The most sessions of one site with a past, and the most changes kept for each.
MOST_SESSIONS: Final = 1_000
_CHANGES: Final = 40
_DIGITS: Final = re.compile(r"[\d.,]+")

#: Client and destination.
Key = tuple[str, str]


class Sample(NamedTuple):
    """The lag of a session at a moment: the entries that are not applied, and the age of the oldest."""

    at_us: int
    seconds: float
    entries: int


class StateChange(NamedTuple):
    """A state of a session with its reason, and the moment when the console first saw them."""

    at_us: int
    state: str
    reason: str


@dataclass(slots=True)
class Past:
    """The samples and changes of one session, oldest first."""

    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=int(HOUR / STEP)))
    changes: deque[StateChange] = field(default_factory=lambda: deque(maxlen=_CHANGES))


class SitePast:
    """The past of all sessions of one site; the sessions seen longest ago are forgotten first."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[Key, Past] = OrderedDict()

    def note(self, status: SiteStatus) -> None:
        """Add one status: a sample if the last one is old enough, and a change if there is one."""
        for session in status.sessions:
            key = (session.client, session.destination)
            past = self._by_key.setdefault(key, Past())
            self._by_key.move_to_end(key)
            _note(past, session, status.at_us)
        while len(self._by_key) > MOST_SESSIONS:
            self._by_key.popitem(last=False)

    def of(self, client: str, destination: str) -> Past:
        """Return the past of one session; an empty one for an unknown session."""
        return self._by_key.get((client, destination), Past())

    def __len__(self) -> int:
        return len(self._by_key)


def _note(past: Past, session: SessionStatus, at_us: int) -> None:
    if not past.samples or at_us - past.samples[-1].at_us >= STEP * 1_000_000:
        past.samples.append(Sample(at_us, session.applied_lag.seconds, session.applied_lag.entries))
    fresh = StateChange(at_us, session.state.value, session.reason)
    if not past.changes or _shape(past.changes[-1]) != _shape(fresh):
        past.changes.append(fresh)


def _shape(change: StateChange) -> tuple[str, str]:
    """Return the state and the reason without its numbers: a count of rows that grows is no change."""
    return change.state, _DIGITS.sub("#", change.reason)


def recent(samples: Sequence[Sample], now_us: int) -> list[Sample]:
    """Return the samples of the past hour."""
    return [each for each in samples if each.at_us >= now_us - HOUR * 1_000_000]
