"""The result of the ring's demonstration. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lrq.demo.ring.proof import NumbersProof


@dataclass(frozen=True, slots=True)
class RingReport:
    """All results of one run; `ticks` are those in each file, by rank, and `generations` those with ticks."""

    seconds: float
    numbers: NumbersProof
    ticks: Sequence[int]
    are_files_alike: bool
    generations: int
    longest_pause: float

    @property
    def ok(self) -> bool:
        """Whether each acknowledged entry is at the sink once, in order, and the three files are alike."""
        return self.numbers.ok and self.are_files_alike and self.numbers.acknowledged > 0

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of `lrq demo --ring --json`."""
        return {
            "ok": self.ok,
            "seconds": round(self.seconds, 1),
            "entries": asdict(self.numbers),
            "files": {"alike": self.are_files_alike, "ticks": list(self.ticks)},
            "generations": self.generations,
            "longest_pause_seconds": round(self.longest_pause, 2),
        }

    def in_words(self) -> Iterator[str]:
        """Yield the results in sentences."""
        numbers = self.numbers
        yield f"The ring acknowledged {numbers.acknowledged:,} entries, and tokyo has {numbers.heard:,}."
        if not numbers.ok:
            yield f"NO: {numbers.in_words()}."
        if self.are_files_alike:
            yield f"The three files are alike: {self.ticks[0]:,} ticks of {self.generations} generations in each."
        else:
            yield f"NO: the three files differ. They have {', '.join(f'{each:,}' for each in self.ticks)} ticks."
        yield f"The longest pause of the producer was {self.longest_pause:.1f} s."
        yield (
            "Proved: each acknowledged entry is at tokyo exactly once, in order, and in all three files."
            if self.ok
            else "The proof has failed."
        )
