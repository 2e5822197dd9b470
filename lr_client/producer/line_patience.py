"""Whether the line of a producer is slow, by the ends of its connections. Pure.

A large request delays the answer to gRPC's question, so a slow line looks like a server that stands still. Another
server would store the request of the one that stands still. So two losses in silence without a stored request between
them tell a slow line.
"""

from typing import Final

#: Even a line of 64 kbit/s soon carries fewer bytes, so a silence with fewer ones tells no slow line.
MANY_BYTES: Final = 40 * 1024


class LinePatience:
    """Counts connections that were lost in silence, in the middle of many bytes, since the last stored request."""

    def __init__(self, endpoints: int) -> None:
        """Begin without patience; a single server gets patience sooner, because no other one does its work."""
        self._needed = 1 if endpoints == 1 else 2
        self._silences = 0

    @property
    def is_patient(self) -> bool:
        """Whether the next connection should be one for slow lines."""
        return self._silences >= self._needed

    def stored(self) -> None:
        """Note a stored request; patience stays until the end of its connection."""
        if not self.is_patient:
            self._silences = 0

    def lost(self, bytes_on_the_way: int, *, in_silence: bool) -> None:
        """Note the end of a connection by an error, with *bytes_on_the_way* of requests.

        The end of a patient one ends the patience, so a server that is dead by now is noticed sooner. Silences count
        across other failures, because one of the servers may be dead besides.
        """
        if self.is_patient:
            self._silences = 0
        if in_silence and bytes_on_the_way >= MANY_BYTES:
            self._silences += 1
