"""The bytes of accepted frames, by client and source."""

import threading
from collections.abc import Mapping
from typing import Final, NamedTuple

#: The most pairs that are told apart. A peer chooses the names, so further pairs count together.
MOST: Final = 1_000


class ReceivedStream(NamedTuple):
    """The client and the source of some frames."""

    client: str
    source: str


#: All pairs after the first `MOST`.
OTHERS: Final = ReceivedStream("others", "others")


class ReceivedBytes:
    """Counts for all streams of a service; any number of threads may share this object."""

    def __init__(self, most: int = MOST) -> None:
        """Tell at most *most* pairs apart."""
        self._most = most
        self._bytes: dict[ReceivedStream, int] = {}
        self._guard = threading.Lock()

    def add(self, client: str, source: str, number: int) -> None:
        """Count the bytes of one accepted frame."""
        stream = ReceivedStream(client, source)
        with self._guard:
            if stream not in self._bytes and len(self._bytes) >= self._most:
                stream = OTHERS
            self._bytes[stream] = self._bytes.get(stream, 0) + number

    @property
    def totals(self) -> Mapping[ReceivedStream, int]:
        """The bytes until now."""
        with self._guard:
            return dict(self._bytes)
