"""The transactions ahead of a shard, and the stretch to the next barrier. Pure."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from queues.errors import UsageError


class Candidate(NamedTuple):
    """A source transaction with the numbers `first` to `end`; `keys` has None for entries without a key."""

    first: int
    end: int
    keys: frozenset[str | None]
    entries: int
    bytes: int
    rows: Any = None  # not read here: for the callback of `next_batch`


class Ahead:
    """Yields transactions in their order; some of them may be looked at before."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        """Look at none yet."""
        self._rest = iter(candidates)
        self._seen: deque[Candidate] = deque()

    def __iter__(self) -> Iterator[Candidate]:
        while (candidate := self._seen.popleft() if self._seen else next(self._rest, None)) is not None:
            yield candidate

    def next_barrier(self, is_barrier: Callable[[Candidate], bool], entries: int, size: int) -> int:
        """Return the end of the next barrier; -1 if none is known, or if a key has no slot.

        Return -1 also if more than *entries* entries or *size* bytes come before the barrier.
        """
        place = 0
        while (candidate := self._peek(place)) is not None:
            try:
                if is_barrier(candidate):
                    return candidate.end
            except UsageError:
                return -1
            entries, size, place = entries - candidate.entries, size - candidate.bytes, place + 1
            if entries < 0 or size < 0:
                return -1
        return -1

    def _peek(self, place: int) -> Candidate | None:
        if place == len(self._seen):
            candidate = next(self._rest, None)
            if candidate is None:
                return None
            self._seen.append(candidate)
        return self._seen[place]
