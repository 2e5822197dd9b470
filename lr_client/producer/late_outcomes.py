"""Outcomes that come after a call has raised `OutcomeUnknownError`, until `settle` tells them. Pure."""

from lr_client.producer.answers import Produced
from queues.errors import LrqError


class LateOutcomes:
    """Keeps at most *most* outcomes; an application that never settles loses the oldest ones."""

    def __init__(self, most: int) -> None:
        self._unknown: set[int] = set()
        # By keys, which rise in the order of the calls.
        self._known: dict[int, Produced | LrqError] = {}
        self._most = most

    @property
    def are_known(self) -> bool:
        """Whether `take` has an outcome to tell."""
        return bool(self._known)

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
            self.keep(key, outcome)

    def keep(self, key: int, outcome: Produced | LrqError) -> None:
        """Keep the outcome of the request *key* for `take`."""
        self._known[key] = outcome
        if len(self._known) > self._most:
            del self._known[min(self._known)]

    def take(self) -> list[Produced]:
        """Return all stored requests in order, and forget them.

        Raise the first error instead, and forget that error only.
        """
        stored: list[Produced] = []
        for key, outcome in sorted(self._known.items()):
            if isinstance(outcome, LrqError):
                del self._known[key]
                raise outcome
            stored.append(outcome)
        self._known.clear()
        return stored
