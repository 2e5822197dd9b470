"""Medians, percentiles, the order of runs, and the format of numbers."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of all values of one number."""

    median: float
    least: float
    most: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Summarise *values*, which must not be empty."""
        return cls(statistics.median(values), min(values), max(values), len(values))

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as data for JSON."""
        return {"median": self.median, "min": self.least, "max": self.most, "runs": self.runs}


def rotated(items: Sequence[Item], by: int) -> list[Item]:
    """Rotate *items* by *by* places, so that each run begins with another item."""
    start = by % len(items) if items else 0
    return [*items[start:], *items[:start]]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that a *share* of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * int(share * 1000) // 1000) - 1))]


def shown(value: float) -> str:
    """Format a number with three significant digits."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value else "0"
