"""Numbers of an earlier run that stay in the report when only some experiments are run again."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.bars import verdicts
from benchmarks.book import Book, Key
from benchmarks.issue_bars import BARS
from benchmarks.report import Run

#: The fact that tells of what is kept.
FACT: Final = "kept from earlier runs"


@dataclass
class Kept:
    """What is kept, and when each of its experiments was measured."""

    book: Book = field(default_factory=Book)
    when: dict[str, str] = field(default_factory=dict)


def kept(folder: Path, again: Collection[str]) -> Kept:
    """Read what the report in *folder* has of experiments that are not measured *again*."""
    found = Kept()
    file = folder / "benchmarks.json"
    if not file.exists():
        return found
    report = json.loads(file.read_text(encoding="utf-8"))
    for row in report["measured"]:
        key = Key(*(row[name] for name in Key._fields))
        if key.experiment not in again:
            found.book.values[key] = row["values"]
            found.when[key.experiment] = report.get(FACT, {}).get(key.experiment, report["when"])
    found.book.missing = report["missing"]
    return found


def with_kept(run: Run, earlier: Kept, order: Collection[str]) -> Run:
    """Put both into one run, experiments in *order*; bars compare numbers of one experiment, so of one run each."""
    values = earlier.book.values | run.book.values
    ranks = {name: rank for rank, name in enumerate(order)}
    ordered = sorted(values, key=lambda key: ranks.get(key.experiment, len(ranks)))
    there = {key.contender for key in ordered}
    missing = {what: why for what, why in earlier.book.missing.items() if what not in there}
    book = Book({key: values[key] for key in ordered}, missing | run.book.missing)
    facts = run.facts | ({FACT: earlier.when} if earlier.when else {})
    return Run(facts, book, list(verdicts(book, BARS, {key.experiment for key in ordered})))
