"""The port of all contenders."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.cluster import Cluster
from benchmarks.workload import Entry


@dataclass(frozen=True, slots=True)
class Place:
    """The place where contenders run: one PostgreSQL server, and a folder on the same disk."""

    cluster: Cluster
    folder: Path


class Contender(Protocol):
    """Copies entries of one database to several others, in separate processes.

    An object is used once, from `prepare` to `close`. Only one thread writes, so entry *n* of the source is the *n*-th
    written one.
    """

    name: str
    #: Whether entries arrive in the order of their commits. If so, `progress` is the number of the newest entry that
    #: has arrived, or that the destination skips. Otherwise `progress` is the count of arrived entries.
    ordered: bool

    def prepare(self, place: Place, destinations: int) -> None:
        """Create the databases and start the processes; return once they work."""
        ...

    def transaction(self, entries: Sequence[Entry]) -> None:
        """Write *entries* as an application would, in one transaction."""
        ...

    def progress(self, destination: int) -> int:
        """Return the progress of a destination, as `ordered` defines it; cheap, because callers poll."""
        ...

    def stored(self, destination: int) -> tuple[int, int]:
        """Count all rows and the distinct rows of the destination's table."""
        ...

    def close(self) -> None:
        """Stop all processes and drop all databases, also after a failed `prepare`."""
        ...
