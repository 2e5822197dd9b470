"""A look at a database that cannot be used for a moment, or for longer."""

from collections.abc import Callable

import pytest

from queues.errors import StoreUnavailableError
from queues.patience import PATIENCE, patiently


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def looking(clock: Clock, answers: list[str]) -> Callable[[], str]:
    """Return a patient look that gives *answers* in turn; the empty one is a failure."""

    def look() -> str:
        answer = answers.pop(0)
        if not answer:
            raise StoreUnavailableError("away")
        return answer

    return patiently(look, lambda error: f"meanwhile: {error}", clock=clock)  # type: ignore[arg-type]


def test_a_failure_ends_the_looks_only_after_a_minute_in_a_row() -> None:
    clock = Clock()
    look = looking(clock, ["1", "", "", "2", "", ""])
    seen = []
    for _ in range(5):
        seen.append(look())
        clock.now += PATIENCE - 0.1
    assert seen == ["1", "meanwhile: away", "meanwhile: away", "2", "meanwhile: away"]
    clock.now += 0.1
    with pytest.raises(StoreUnavailableError, match="away"):
        look()
