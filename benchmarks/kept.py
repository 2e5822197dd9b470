"""The numbers of an earlier run that stay in the report when only some experiments run again."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.bars import verdicts
from benchmarks.book import Book, Key
from benchmarks.issue_bars import BARS
from benchmarks.report import Run

#: The name of the fact that lists the kept experiments.
FACT: Final = "kept from earlier runs"


@dataclass
class Kept:
    """The kept numbers, and the time of each kept experiment."""

    book: Book = field(default_factory=Book)
    when: dict[str, str] = field(default_factory=dict)


def kept(folder: Path, again: Collection[str]) -> Kept:
    """Read the report in *folder*, without the experiments that are measured *again*."""
    found = Kept()
    file = folder / "benchmarks.json"
    if not file.exists():
        return found
    report = json.loads(file.read_text(encoding="utf-8"))
    for row in report["measured"]:
        key = Key(*(row[name] for name in Key._fields))
        if key.experiment not in again:
            found.book.values[key] = row["values"]
            found.when[key.experiment] = report.get(FACT, {}).get(key.experiment, _told(report))
    found.book.missing = report["missing"]
    return found


def _told(report: Mapping[str, str]) -> str:
    """Return the time of a report and its PostgreSQL, if told: the version may differ from run to run."""
    version = report.get("PostgreSQL", "").partition(",")[0]
    return f"{report['when']}, PostgreSQL {version}" if version else report["when"]


def with_kept(run: Run, earlier: Kept, order: Collection[str]) -> Run:
    """Merge both runs, experiments in *order*; a bar compares numbers of one experiment, and so of one run."""
    values = earlier.book.values | run.book.values
    ranks = {name: rank for rank, name in enumerate(order)}
    ordered = sorted(values, key=lambda key: ranks.get(key.experiment, len(ranks)))
    there = {key.contender for key in ordered}
    missing = {what: why for what, why in earlier.book.missing.items() if what not in there}
    book = Book({key: values[key] for key in ordered}, missing | run.book.missing)
    facts = run.facts | ({FACT: earlier.when} if earlier.when else {})
    return Run(facts, book, list(verdicts(book, BARS, {key.experiment for key in ordered})))
