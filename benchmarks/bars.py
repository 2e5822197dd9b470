"""The bars that lrq must reach: ratios of two numbers of the same run, and their verdicts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from benchmarks.book import Book

OURS: Final = "lrq on PostgreSQL"
LOGICAL: Final = "logical replication"


class Number(NamedTuple):
    """One side of a ratio: a contender in a setting."""

    setting: str
    contender: str


@dataclass(frozen=True, slots=True)
class Bar:
    """The ratio of two numbers in *unit* must be at least, or at most, *bound*.

    *floors* are contenders that do less than the task; the report shows their ratios beside the bar.
    """

    experiment: str
    unit: str
    ours: Number
    other: Number
    bound: float
    at_least: bool = True
    floors: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The bar as the report's table shows it."""
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}"

    def ratio(self, book: Book) -> float | None:
        """Return the ratio of the medians; None if one of them was not measured."""
        return self._ratio_of(self.ours, book)

    def floor_ratios(self, book: Book) -> dict[str, float]:
        """Return the ratio of each floor that was measured."""
        found = {floor: self._ratio_of(Number(self.ours.setting, floor), book) for floor in self.floors}
        return {floor: ratio for floor, ratio in found.items() if ratio is not None}

    def _ratio_of(self, number: Number, book: Book) -> float | None:
        above = book.median(self.experiment, *number, self.unit)
        below = book.median(self.experiment, *self.other, self.unit)
        return None if above is None or not below else above / below

    def is_met(self, ratio: float) -> bool:
        """Return whether *ratio* reaches the bar."""
        return ratio >= self.bound if self.at_least else ratio <= self.bound


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bar and the ratio reached; None if a number is missing."""

    bar: Bar
    ratio: float | None
    floors: Mapping[str, float] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The verdict as text: met, missed or not measured."""
        if self.ratio is None:
            return "not measured"
        return "met" if self.bar.is_met(self.ratio) else "missed"

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as data for JSON."""
        bar = self.bar
        return {
            "experiment": bar.experiment,
            "unit": bar.unit,
            "ours": bar.ours._asdict(),
            "other": bar.other._asdict(),
            "bar": bar.words,
            "ratio": self.ratio,
            "floors": dict(self.floors),
            "verdict": self.words,
        }


def verdicts(book: Book, bars: tuple[Bar, ...], experiments: set[str]) -> Iterator[Verdict]:
    """Give the verdicts on the bars of *experiments*."""
    for bar in bars:
        if bar.experiment in experiments:
            yield Verdict(bar, bar.ratio(book), bar.floor_ratios(book))
