"""Rounds in which both sides take turns, and their results."""

from dataclasses import dataclass, field
from statistics import median

from benchmarks.snapshot.travel import Travel
from benchmarks.snapshot.writing import Writing


@dataclass
class Compared:
    """The seconds of lrq (*ours*) and of the other side (*theirs*) in each round, for *rows* rows."""

    what: str
    against: str
    bar: float
    rows: int
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    ready: list[float] = field(default_factory=list)
    resident: dict[str, int] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)

    @property
    def our_rate(self) -> float:
        """Rows per second of lrq, in the median round."""
        return self.rows / median(self.ours)

    @property
    def their_rate(self) -> float:
        """Rows per second of the other side, in the median round."""
        return self.rows / median(self.theirs)

    @property
    def ratio(self) -> float:
        """The median of the ratios of each round: a slow phase of the machine slows both sides of a round."""
        return median(theirs / ours for ours, theirs in zip(self.ours, self.theirs, strict=True))

    def facts(self) -> dict[str, object]:
        """Return the comparison as data for JSON."""
        return {
            "what": self.what,
            "against": self.against,
            "rows": self.rows,
            "seconds": self.ours,
            "seconds_against": self.theirs,
            "seconds_until_ready": self.ready,
            "rows_per_second": round(self.our_rate),
            "rows_per_second_against": round(self.their_rate),
            "ratio": round(self.ratio, 3),
            "bar": self.bar,
            "resident_bytes_before": self.resident,
            "peak_bytes": self.peaks,
        }


def compare_write(writing: Writing, rows: int, size: int, rounds: int) -> Compared:
    """Measure the warm write by Spark against a bare COPY."""
    found = Compared("warm snapshot write", "bare COPY", 0.75, rows)
    for _ in range(rounds):
        found.ours.append(writing.by_spark(rows, size))
        found.theirs.append(writing.by_copy())
    return found


def compare_travel(travel: Travel, rows: int, size: int, rounds: int) -> Compared:
    """Measure the time until a snapshot is applied against `pg_dump | psql`, by turns."""
    found = Compared('request to "applied"', "pg_dump | psql", 0.7, rows)
    travel.fill(rows, size)
    travel.forget()
    found.resident = travel.peaks()
    for number in range(rounds):
        if number % 2:
            found.theirs.append(travel.by_dump())
        seconds = travel.by_lrq()
        found.ours.append(seconds["applied"])
        found.ready.append(seconds["ready"])
        if not number % 2:
            found.theirs.append(travel.by_dump())
    found.peaks = travel.peaks()
    return found
