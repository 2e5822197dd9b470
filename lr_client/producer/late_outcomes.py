"""Outcomes that come after a call has raised `OutcomeUnknownError`, until `settle` tells them. Pure."""

from collections import deque

from lr_client.producer.answers import Produced
from queues.errors import LrqError


class LateOutcomes:
    """Keeps at most *most* outcomes; an application that never settles loses the oldest ones."""

    def __init__(self, most: int) -> None:
        self._unknown: set[int] = set()
        self._known: deque[Produced | LrqError] = deque(maxlen=most)

    def doubt(self, key: int) -> None:
        """Note that a call has ended with the unknown outcome of the request *key*."""
        self._unknown.add(key)

    def await_again(self, key: int) -> None:
        """Note that a call waits for the request *key* again."""
        self._unknown.discard(key)

    def heard(self, key: int, outcome: Produced | LrqError) -> None:
        """Take the outcome of the request *key*, for which no call waits."""
        if key in self._unknown:
            self._unknown.remove(key)
            self.keep(outcome)

    def keep(self, outcome: Produced | LrqError) -> None:
        """Keep an outcome for `take`."""
        self._known.append(outcome)

    def take(self) -> list[Produced]:
        """Return all stored requests, and forget them; raise the first error instead, and forget that error only."""
        error = next((each for each in self._known if isinstance(each, LrqError)), None)
        if error is not None:
            self._known.remove(error)
            raise error
        stored = [each for each in self._known if isinstance(each, Produced)]
        self._known.clear()
        return stored
