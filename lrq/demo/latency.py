"""Measure latency: the time from the commit of an entry at the source to the commit that applied it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import event
from sqlalchemy.orm import Session

from lr_client import RoutingTableEntryMsg
from queues.clock import now_us


class Journey(NamedTuple):
    """The two commits of one entry, in microseconds since 1970."""

    committed_us: int
    applied_us: int


class Stopwatch:
    """Records the journeys of entries in a file that outlives this process."""

    def __init__(self, path: Path) -> None:
        """Append to *path*."""
        self._file = path.open("ab", buffering=0)

    def await_commit(self, session: Session, entries: Sequence[RoutingTableEntryMsg]) -> None:
        """Record *entries* when the transaction of *session* commits; a rollback records nothing."""

        def committed(_session: Session) -> None:
            now = now_us()
            self._file.write(b"".join(b"%d %d\n" % (entry.commit_time_us, now) for entry in entries))

        event.listen(session, "after_commit", committed, once=True)


class Journeys:
    """Reads the file of a stopwatch piece by piece."""

    def __init__(self, path: Path) -> None:
        """Read *path* from its beginning."""
        path.touch()
        self._file = path.open()

    def fresh(self) -> Iterator[Journey]:
        """Yield the journeys recorded since the last call."""
        for line in self._file:
            committed, applied = line.split()
            yield Journey(int(committed), int(applied))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile of *values* at *share* (0 to 1); 0 if there are no values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
