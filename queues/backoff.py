"""The delay before the next attempt. Pure."""

from dataclasses import dataclass
from math import log

from queues.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that grow by *factor* up to a cap: `min(cap_seconds, first_seconds * factor ** (n - 1))` for attempt n.

    The caller shortens each delay at random (`clock.jittered`), so that many sessions do not retry at one moment. After
    a success the count of attempts begins again at 1.
    """

    first_seconds: float = 0.1
    cap_seconds: float = 30.0
    factor: float = 2.0

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` unless `0 < first_seconds <= cap_seconds` and `factor > 1`."""
        if not (0 < self.first_seconds <= self.cap_seconds and self.factor > 1):
            raise ConfigurationError(f"{self} is no backoff: 0 < first_seconds <= cap_seconds and factor > 1 must hold")

    def delay_seconds(self, attempt: int) -> float:
        """Return the longest delay after attempt number *attempt* has failed; attempts count from 1."""
        # The logarithms are compared first, because a power with a large exponent overflows.
        if (attempt - 1) * log(self.factor) >= log(self.cap_seconds / self.first_seconds):
            return self.cap_seconds
        return min(self.cap_seconds, self.first_seconds * self.factor ** (max(attempt, 1) - 1))
