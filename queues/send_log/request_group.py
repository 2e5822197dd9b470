"""Decide on requests of producers that are stored together. Pure."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from queues.positions import Position
from queues.send_log.producers import NO_REQUEST, Last, ProducerKey, Production, RequestVerdict, StoreOutcome, decide


class AcceptedRequest(NamedTuple):
    """The token of a request that is stored now, and its number in the transaction of that token.

    `position` is the place of the request, if that is known.
    """

    token: str
    request: int = 0
    position: Position | None = None


class RequestGroup:
    """The last requests of producers while those of a group are decided in order; their rows are locked."""

    def __init__(self, lasts: Mapping[ProducerKey, Last], accept: Callable[[Production], AcceptedRequest]) -> None:
        """Begin with the last stored request of each producer that has one; *accept* takes those to store."""
        self._lasts = dict(lasts)
        self._accept = accept
        #: The last accepted request of each producer that has one.
        self.moved: dict[ProducerKey, Last] = {}

    def decide(self, request: Production, doubt: str) -> StoreOutcome:
        """Return the outcome of *request*; *doubt* is the reason against storing it, empty without one."""
        key = request.key
        last = self._lasts.get(key, NO_REQUEST)
        verdict = decide(last, request)
        if verdict is not RequestVerdict.STORED:
            return StoreOutcome(verdict, last)
        if doubt:
            return StoreOutcome(RequestVerdict.REFUSED, NO_REQUEST, doubt)
        token, number, position = self._accept(request)
        last = self._lasts[key] = self.moved[key] = last.after(request, token, number)
        return StoreOutcome(verdict, last, "", position)
