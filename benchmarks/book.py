"""Where experiments write down what they measured."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks.figures import Summary


class Key(NamedTuple):
    """What one number is about."""

    experiment: str
    setting: str
    contender: str
    unit: str


@dataclass
class Book:
    """All numbers of a run, by what they are about, and what could not be measured."""

    values: dict[Key, list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, experiment: str, setting: str, contender: str, **measured: float) -> None:
        """Add one value each; units are the names, with `_` for a space."""
        for unit, value in measured.items():
            self.values.setdefault(Key(experiment, setting, contender, unit.replace("_", " ")), []).append(value)

    def lacks(self, what: str, why: str) -> None:
        """Note what could not be measured, once."""
        self.missing.setdefault(what, why)

    def median(self, experiment: str, setting: str, contender: str, unit: str) -> float | None:
        """Return the median of a number, None when it was not measured."""
        values = self.values.get(Key(experiment, setting, contender, unit))
        return Summary.of(values).median if values else None

    def summaries(self) -> Iterator[tuple[Key, Summary]]:
        """Give everything, in the order in which it was measured first."""
        for key, values in self.values.items():
            yield key, Summary.of(values)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        rows = [
            key._asdict() | Summary.of(values).as_dict() | {"values": values} for key, values in self.values.items()
        ]
        return {"measured": rows, "missing": self.missing}
