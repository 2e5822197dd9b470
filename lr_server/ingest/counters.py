"""Counts of the requests at one server, for status and metrics."""

import threading
from collections import Counter
from collections.abc import Mapping

from queues.wire import ingest_pb2 as pb


class SharedCount:
    """A number that several threads raise."""

    def __init__(self) -> None:
        self._value = 0
        self._guard = threading.Lock()

    def add(self, number: int) -> None:
        """Raise the count by *number*."""
        with self._guard:
            self._value += number

    @property
    def value(self) -> int:
        """The present number."""
        return self._value


class IngestCounters:
    """Requests and messages that passed the checks, stored groups, and refusals by kind, since the server began.

    `forwarded` counts the requests that went on to the server that leads; that server counts them as requests too.
    """

    def __init__(self) -> None:
        self.requests = SharedCount()
        self.messages = SharedCount()
        self.forwarded = SharedCount()
        self.groups = SharedCount()
        self._refusals: Counter[str] = Counter()
        self._guard = threading.Lock()

    def refused(self, kind: pb.ProduceRefusal.Kind.ValueType) -> None:
        """Count one refusal."""
        with self._guard:
            self._refusals[pb.ProduceRefusal.Kind.Name(kind).lower()] += 1

    @property
    def refusals(self) -> Mapping[str, int]:
        """The number of refusals by the lower-case name of the kind."""
        with self._guard:
            return dict(self._refusals)
