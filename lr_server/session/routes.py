"""The endpoint of each session, by the rule of `discovery.endpoint_choice`, and looks for the preferred ones."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from discovery.endpoint_choice import EndpointChoice, first_choice, in_order
from discovery.topology import split_endpoints
from lr_server.protocol.events import Event, PeerLost, RefusalKind, Refused
from queues.clock import Clock, jittered
from queues.errors import LrqError
from queues.logs import logger
from queues.names import SiteId
from queues.send_log.port import SessionKey
from sink.transport.probe import EndpointProbe

log = logger("lrq.session")

#: The longest look for a preferred endpoint, in seconds.
LOOK_SECONDS: Final = 10.0
#: Refusals that another server of the same site may not give; the other kinds depend on the site's database.
_ELSEWHERE: Final = (RefusalKind.TRANSIENT, RefusalKind.WRONG_SITE, RefusalKind.PROTOCOL, RefusalKind.UNSPECIFIED)


def moves_on(event: Event) -> bool:
    """Return whether a session goes on to the next endpoint after *event*. Pure."""
    match event:
        case PeerLost():
            return True
        case Refused(kind=kind):
            return kind in _ELSEWHERE
        case _:
            return False


@dataclass(slots=True)
class _Route:
    """The endpoints of one session, the preferred one first; a look for that one, `probe`, began at `began`."""

    endpoints: tuple[str, ...]
    choice: EndpointChoice
    probe: EndpointProbe | None = None
    began: float = 0.0

    def end_look(self) -> None:
        if self.probe is not None:
            self.probe.close()
            self.probe = None


class Routes:
    """The endpoints of all sessions of a server; threads may share this object."""

    def __init__(self, site: SiteId, clock: Clock, probe: Callable[[str], EndpointProbe]) -> None:
        """Route the sessions of the source *site*; *probe* begins to look for an endpoint."""
        self._site = site
        self._clock = clock
        self._probe = probe
        self._routes: dict[SessionKey, _Route] = {}
        self._guard = threading.Lock()

    def endpoint(self, owed: SessionKey, listed: str) -> str:
        """Return the endpoint to connect to, of the *listed* ones between commas."""
        endpoints = in_order((self._site, owed.destination, owed.client), split_endpoints(listed))
        with self._guard:
            route = self._routes.get(owed)
            if route is None or route.endpoints != endpoints:
                if route is not None:
                    route.end_look()
                route = self._routes[owed] = _Route(endpoints, first_choice(len(endpoints)))
            route.choice = route.choice.used()
            return endpoints[route.choice.at]

    def note(self, owed: SessionKey, event: Event) -> None:
        """Go on to the next endpoint if *event* calls for it."""
        if not moves_on(event):
            return
        with self._guard:
            if (route := self._routes.get(owed)) is not None:
                route.choice = route.choice.failed(self._clock.monotonic(), jittered(1.0))

    def is_home_again(self, owed: SessionKey) -> bool:
        """Look for the preferred endpoint of an absent session; return True once the session shall connect to it."""
        with self._guard:
            route = self._routes.get(owed)
            now = self._clock.monotonic()
            if route is None or not route.choice.is_due(now):
                return False
            if route.probe is None:
                route.probe, route.began = self._begun(route.endpoints[route.choice.home]), now
            if route.probe is not None and route.probe.reached:
                route.choice = route.choice.moved_back(now)
            elif route.probe is None or now - route.began >= LOOK_SECONDS:
                route.choice = route.choice.missed(now, jittered(1.0))
            else:
                return False
            route.end_look()
            return not route.choice.is_away

    def _begun(self, endpoint: str) -> EndpointProbe | None:
        try:
            return self._probe(endpoint)
        except LrqError as error:
            log.warning("the preferred server of a site cannot be looked for", endpoint=endpoint, reason=str(error))
            return None

    def forget(self, owed: SessionKey) -> None:
        """Forget the route of an ended session."""
        with self._guard:
            if (route := self._routes.pop(owed, None)) is not None:
                route.end_look()
