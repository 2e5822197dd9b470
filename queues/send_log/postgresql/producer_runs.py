"""Divide the requests of one group into transactions. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from queues.send_log.producers import ProducerKey, Production

#: The most entries of requests that share a transaction, and the most bytes of their payloads.
SHARED_ENTRIES: Final = 128
SHARED_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class StoreTry:
    """A request, and why its destinations are refused; empty if they are not."""

    request: Production
    doubt: str


def runs_of(tries: Iterable[StoreTry]) -> list[list[StoreTry]]:
    """Divide requests into those of one transaction each: successive numbers of one process, within `SHARED`. Pure."""
    runs: list[list[StoreTry]] = []
    open_runs: dict[ProducerKey, list[StoreTry]] = {}
    rooms: dict[ProducerKey, tuple[int, int]] = {}
    for each in tries:
        request = each.request
        entries, size = len(request.entries), sum(len(entry.payload) for entry in request.entries)
        run = open_runs.get(request.key)
        taken = rooms.get(request.key, (0, 0))
        fits = taken[0] + entries <= SHARED_ENTRIES and taken[1] + size <= SHARED_BYTES
        if run is not None and fits and _follows(run[-1], each):
            run.append(each)
            rooms[request.key] = taken[0] + entries, taken[1] + size
        else:
            runs.append([each])
            open_runs[request.key], rooms[request.key] = runs[-1], (entries, size)
    return runs


def _follows(before: StoreTry, after: StoreTry) -> bool:
    numbers = before.request.sequence, after.request.sequence
    is_next = 0 < numbers[0] == numbers[1] - 1 and before.request.process == after.request.process
    return is_next and not (before.doubt or after.doubt)
