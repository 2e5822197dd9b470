"""The port of everything that is compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.cluster import Cluster
from benchmarks.workload import Entry


@dataclass(frozen=True, slots=True)
class Place:
    """Where contenders run: one PostgreSQL, and a folder on the same disk."""

    cluster: Cluster
    folder: Path


class Contender(Protocol):
    """Brings entries of one database to several others, in processes of its own.

    An object is used once, from `prepare` to `close`. One thread at a time writes, so that entry 1, 2, … of the source
    are those that were written first, second, ….
    """

    name: str
    #: Whether entries arrive in the order of their commits: then `progress` is the number of the newest one that is
    #: at the destination (or that it knows not to be owed); otherwise it is how many are there.
    ordered: bool

    def prepare(self, place: Place, destinations: int) -> None:
        """Make databases and start what carries entries; return when it runs."""
        ...

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Write some entries as an application would, and commit."""
        ...

    def progress(self, destination: int) -> int:
        """Return how far a destination has got; cheap, because it is asked often."""
        ...

    def stored(self, destination: int) -> tuple[int, int]:
        """Count the rows of the destination's table, and the different ones."""
        ...

    def close(self) -> None:
        """Stop and remove everything; after a failed `prepare` too."""
        ...
