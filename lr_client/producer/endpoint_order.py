"""The server that a producer asks next, and the pause before. Pure."""

from collections.abc import Sequence
from typing import Final

from queues.backoff import Backoff
from queues.errors import ConfigurationError
from sink.transport.endpoints import IpcEndpoint, TcpEndpoint, network_endpoint

#: Servers are asked again after pauses of this kind, once all have failed. The pauses grow slowly, so that a producer
#: finds the next leader soon after a takeover.
BACKOFF: Final = Backoff(first_seconds=0.05, cap_seconds=2.0, factor=1.3)
# The longest endpoint that a server may name, in characters.
_LONGEST: Final = 512


class EndpointOrder:
    """The endpoints of a site in turn; a server that answers stays the current one."""

    def __init__(self, text: str) -> None:
        """Read endpoints between commas; raise `ConfigurationError` for none, or for a malformed one."""
        if not isinstance(text, str):
            raise ConfigurationError(
                f"endpoints must be one text, with commas between several, not {type(text).__name__}"
            )
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if not parts:
            raise ConfigurationError("name the endpoint of a server, such as tls://paris.example:7400")
        self.endpoints: Sequence[TcpEndpoint | IpcEndpoint] = [network_endpoint(part) for part in parts]
        self._place = 0
        self._leader: TcpEndpoint | IpcEndpoint | None = None
        self._failures = 0

    @property
    def current(self) -> TcpEndpoint | IpcEndpoint:
        """The endpoint for the next stream."""
        return self._leader or self.endpoints[self._place]

    def succeeded(self) -> None:
        """Forget earlier failures: the current server has stored a request."""
        self._failures = 0

    def failed(self, leader: str = "") -> float:
        """Go on to *leader*, if the server named one, or else to the next endpoint; return the pause in seconds.

        The pause is zero until each endpoint has failed once since the last success.
        """
        self._failures += 1
        before, named = self.current, self._followed(leader)
        if self._leader is None and named is None:
            self._place = (self._place + 1) % len(self.endpoints)
        self._leader = None if named == before else named
        tried = self._failures - len(self.endpoints) - (named is not None)
        return BACKOFF.delay_seconds(tried + 1) if tried >= 0 else 0.0

    def _followed(self, leader: str) -> TcpEndpoint | IpcEndpoint | None:
        """Return the endpoint that a server named; None for one of a kind that the application did not name.

        So no server leads a producer from TLS to a connection without.
        """
        if not leader or len(leader) > _LONGEST:
            return None
        try:
            endpoint = network_endpoint(leader)
        except ConfigurationError:
            return None
        return endpoint if type(endpoint) in {type(each) for each in self.endpoints} else None
