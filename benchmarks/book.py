"""The book in which experiments record their numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks.figures import Summary


class Key(NamedTuple):
    """The experiment, setting, contender and unit of a number."""

    experiment: str
    setting: str
    contender: str
    unit: str


@dataclass
class Book:
    """All numbers of a run by key, and the reasons for missing ones."""

    values: dict[Key, list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, experiment: str, setting: str, contender: str, **measured: float) -> None:
        """Add one value for each keyword; the keyword is the unit, with `_` for a space."""
        for unit, value in measured.items():
            self.values.setdefault(Key(experiment, setting, contender, unit.replace("_", " ")), []).append(value)

    def lacks(self, what: str, why: str) -> None:
        """Note the reason for a missing measurement; the first reason stays."""
        self.missing.setdefault(what, why)

    def median(self, experiment: str, setting: str, contender: str, unit: str) -> float | None:
        """Return the median of a number; None if it was not measured."""
        values = self.values.get(Key(experiment, setting, contender, unit))
        return Summary.of(values).median if values else None

    def summaries(self) -> Iterator[tuple[Key, Summary]]:
        """Give all numbers, in the order of their first measurement."""
        for key, values in self.values.items():
            yield key, Summary.of(values)

    def as_dict(self) -> dict[str, Any]:
        """Return the book as data for JSON."""
        rows = [
            key._asdict() | Summary.of(values).as_dict() | {"values": values} for key, values in self.values.items()
        ]
        return {"measured": rows, "missing": self.missing}
