"""The report of a run as JSON, Markdown and tables."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bars import Verdict
from benchmarks.book import Book
from benchmarks.figures import shown
from benchmarks.notes import NOTES


@dataclass(frozen=True, slots=True)
class Run:
    """The facts, numbers and verdicts of a run."""

    facts: dict[str, Any]
    book: Book
    verdicts: Sequence[Verdict]

    def save(self, folder: Path, plot: str) -> None:
        """Write `benchmarks.json`, `benchmarks.md` and `benchmarks.svg` into *folder*."""
        folder.mkdir(parents=True, exist_ok=True)
        found = self.facts | self.book.as_dict() | {"bars": [verdict.as_dict() for verdict in self.verdicts]}
        text = json.dumps(found, indent=1, ensure_ascii=False)
        (folder / "benchmarks.json").write_text(text + "\n", encoding="utf-8")
        (folder / "benchmarks.md").write_text(markdown(self), encoding="utf-8")
        (folder / "benchmarks.svg").write_text(plot, encoding="utf-8")


def markdown(run: Run) -> str:
    """Return the report as Markdown."""
    facts = [f"* {name}: {_words(value)}" for name, value in run.facts.items()]
    missing = [f"* {what}: {why}" for what, why in run.book.missing.items()] or ["* nothing"]
    return "\n".join([
        "# Benchmarks", "", "Made by `make bench`; every number is the median of its runs.", "",
        *facts, "", "![deliveries per second](benchmarks.svg)", "",
        "## Bars", "", BARS, "", *table(BAR_HEADS, bar_rows(run.verdicts)), "",
        "## Numbers", "", *table(NUMBER_HEADS, number_rows(run.book)), "",
        "## Missing", "", *missing, "",
        "## How it is measured", "", *(f"* {note}" for note in NOTES), "",
    ])  # fmt: skip


def _words(fact: object) -> str:
    return ", ".join(f"{name} ({value})" for name, value in fact.items()) if isinstance(fact, dict) else str(fact)


BARS = """A row divides a number of lrq, *ours*, by that of *against*. The bar is the wish for this ratio.
The last column has the ratios of programs that promise nothing: see [how it is measured](#how-it-is-measured)."""
BAR_HEADS = ("experiment", "number", "ours", "against", "bar", "reached", "", "floors reach")
NUMBER_HEADS = ("experiment", "setting", "contender", "number", "median", "min – max", "runs")


def bar_rows(verdicts: Iterable[Verdict]) -> list[tuple[str, ...]]:
    """Return one table row per bar."""
    rows: list[tuple[str, ...]] = []
    for verdict in verdicts:
        bar = verdict.bar
        ours = f"{bar.ours.contender}, {bar.ours.setting}"
        # The other setting is shown only if it differs.
        same = bar.other.setting == bar.ours.setting
        other = bar.other.contender if same else f"{bar.other.contender}, {bar.other.setting}"
        reached = "" if verdict.ratio is None else shown(verdict.ratio)
        floors = ", ".join(f"{floor} {shown(ratio)}" for floor, ratio in verdict.floors.items())
        rows.append((bar.experiment, bar.unit, ours, other, bar.words, reached, verdict.words, floors))
    return rows


def number_rows(book: Book) -> list[tuple[str, ...]]:
    """Return one table row per number."""
    return [
        (key.experiment, key.setting, key.contender, key.unit, shown(found.median),
         f"{shown(found.least)} – {shown(found.most)}", str(found.runs))
        for key, found in book.summaries()
    ]  # fmt: skip


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return [*lines, *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)]
