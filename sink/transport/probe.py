"""Look whether a sink can be reached, without a call and without waiting."""

from dataclasses import dataclass
from typing import Protocol

import grpc

from queues.errors import PeerUnreachableError
from sink import local
from sink.transport import channels
from sink.transport.credentials import Credentials, needed
from sink.transport.endpoints import LocalEndpoint, NetworkEndpoint, TlsEndpoint


class EndpointProbe(Protocol):
    """A look that goes on until `close`."""

    @property
    def reached(self) -> bool:
        """Whether the sink was reached."""
        ...

    def close(self) -> None:
        """End the look. May be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class EndedProbe:
    """A look of a moment, which has *reached* the sink or not."""

    reached: bool

    def close(self) -> None:
        """See `EndpointProbe`."""


class SinkProbe:
    """One attempt to connect, which goes on until `close`; TLS counts as reached after its handshake."""

    def __init__(self, endpoint: NetworkEndpoint | LocalEndpoint, *, credentials: Credentials | None = None) -> None:
        """Begin to connect. Raises `ConfigurationError` if *credentials* are needed but unusable."""
        #: Whether the endpoint was reached.
        self.reached = False
        self._line: channels.SharedChannel | None = None
        if isinstance(endpoint, LocalEndpoint):
            self.reached = _runs_here(endpoint)
            return
        pems = needed(credentials, endpoint).read() if isinstance(endpoint, TlsEndpoint) else None
        self._line = channels.take(endpoint.address, pems)
        self._line.watch(self._note)

    def _note(self, state: grpc.ChannelConnectivity) -> None:
        self.reached = self.reached or state is grpc.ChannelConnectivity.READY

    def close(self) -> None:
        """Release the connection. May be called twice."""
        line, self._line = self._line, None
        if line is not None:
            line.unwatch(self._note)
            channels.give_back(line, is_broken=False)


def _runs_here(endpoint: LocalEndpoint) -> bool:
    try:
        local.find(endpoint.site)
    except PeerUnreachableError:
        return False
    return True
