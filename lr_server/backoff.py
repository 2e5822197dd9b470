"""How long to wait before the next try. Pure: chance is an argument."""

from dataclasses import dataclass
from math import log

from queues.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double, up to a cap, each shortened at random so that many sessions do not return at once.

    With `spread` s, attempt n (from 1) waits between `(1 - s) * d` and `d`, where
    `d = min(cap_seconds, first_seconds * factor ** (n - 1))`. A success begins again at attempt 1.
    """

    first_seconds: float = 0.1
    cap_seconds: float = 30.0
    factor: float = 2.0
    spread: float = 0.5

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` for values that are not delays."""
        if not (0 < self.first_seconds <= self.cap_seconds and self.factor > 1 and 0 <= self.spread <= 1):
            raise ConfigurationError(
                f"{self} is no backoff: 0 < first_seconds <= cap_seconds, factor > 1 and 0 <= spread <= 1 must hold"
            )

    def delay_seconds(self, attempt: int, chance: float) -> float:
        """Return how long to wait before *attempt*; *chance* is a number in [0, 1)."""
        return self._longest(max(attempt, 1)) * (1 - self.spread * chance)

    def _longest(self, attempt: int) -> float:
        # Comparing exponents first: a power of a large attempt overflows.
        if (attempt - 1) * log(self.factor) >= log(self.cap_seconds / self.first_seconds):
            return self.cap_seconds
        return min(self.cap_seconds, self.first_seconds * self.factor ** (attempt - 1))
