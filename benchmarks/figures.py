"""Medians, and the order of runs."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Summary:
    """Several values of one number."""

    median: float
    least: float
    most: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Sum them up; there must be one at least."""
        return cls(statistics.median(values), min(values), max(values), len(values))

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"median": self.median, "min": self.least, "max": self.most, "runs": self.runs}


def rotated(items: Sequence[Item], by: int) -> list[Item]:
    """Return *items* in an order that begins with another one each run, so that no one is always first."""
    start = by % len(items) if items else 0
    return [*items[start:], *items[:start]]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that *share* of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * int(share * 1000) // 1000) - 1))]


def shown(value: float) -> str:
    """Write a number with three digits that count."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value else "0"
