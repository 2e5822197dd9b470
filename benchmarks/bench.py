"""The context of an experiment: a place, sizes, and the book for its numbers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal, TypeVar

from benchmarks.book import Book
from benchmarks.contender import Contender, Place
from benchmarks.figures import rotated

Size = Literal["quick", "normal", "full"]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Bench:
    """The context of one run of the benchmarks."""

    place: Place
    book: Book
    runs: int
    size: Size
    say: Callable[[str], None]

    def pick(self, quick: Item, normal: Item, full: Item | None = None) -> Item:
        """Return the argument that belongs to the size of this run."""
        if self.size == "quick":
            return quick
        return full if self.size == "full" and full is not None else normal

    def rounds(self, items: Sequence[Item]) -> Iterator[tuple[int, Item]]:
        """Give every item once per run, in a rotated order."""
        for run in range(self.runs):
            for item in rotated(items, run):
                yield run, item

    @contextmanager
    def running(self, contender: Contender, destinations: int, setting: str) -> Iterator[None]:
        """Prepare a contender and clean up after it; note a failure as missing, and go on."""
        self.say(f"{contender.name}: {setting}")
        with self.tried(f"{contender.name}, {setting}"):
            try:
                contender.prepare(self.place, destinations)
                yield
            except BaseException:
                with suppress(Exception):
                    contender.close()
                raise
            contender.close()

    @contextmanager
    def tried(self, what: str) -> Iterator[None]:
        """Note a failure of the block as missing, with the reason, and go on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - told in the report
            self.say(f"{what} failed: {error}")
            self.book.lacks(what, f"failed: {type(error).__name__}: {error}")
