"""The endpoint of each session: the next one after a failure, and the preferred one once it can be reached again."""

import pytest

from discovery.endpoint_choice import FIRST_PAUSE, preferred
from lr_server.protocol import events as happened
from lr_server.protocol.events import Event, PeerLost, RefusalKind, Refused
from lr_server.session.routes import LOOK_SECONDS, Routes, moves_on
from queues.clock import SystemClock
from queues.errors import ConfigurationError
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey
from sink.transport.endpoints import parse_endpoint
from sink.transport.probe import Probe

OWED = SessionKey(ClientName("policy"), SiteId("tokyo"))
LISTED = "tcp://a:1, tcp://b:1, tcp://c:1"
HOME = preferred(("paris", "tokyo", "policy"), 3)
IN_ORDER = [["tcp://a:1", "tcp://b:1", "tcp://c:1"][(HOME + number) % 3] for number in range(3)]
LOST = PeerLost("gone")


class SetClock(SystemClock):
    """A clock that a test sets."""

    now = 1_000.0

    def monotonic(self) -> float:
        return self.now


class Looks:
    """Records the looks for endpoints; none reaches its endpoint by itself."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.probes: list[Probe] = []

    def __call__(self, endpoint: str) -> Probe:
        self.begun.append(endpoint)
        self.probes.append(Probe(parse_endpoint("local:nowhere")))
        return self.probes[-1]


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
def routes(clock: SetClock, looks: Looks) -> Routes:
    return Routes(SiteId("paris"), clock, looks)


def test_a_session_keeps_its_endpoint_until_a_failure_and_then_goes_round(routes: Routes) -> None:
    used = []
    for _ in range(4):
        assert routes.endpoint(OWED, LISTED) == routes.endpoint(OWED, LISTED)
        used.append(routes.endpoint(OWED, LISTED))
        routes.note(OWED, LOST)
    assert used == [*IN_ORDER, IN_ORDER[0]]


def test_two_failures_of_one_connection_count_once(routes: Routes) -> None:
    routes.endpoint(OWED, LISTED)
    routes.note(OWED, LOST)
    routes.note(OWED, LOST)
    assert routes.endpoint(OWED, LISTED) == IN_ORDER[1]


def test_a_changed_list_of_endpoints_begins_with_the_preferred_one(routes: Routes) -> None:
    routes.endpoint(OWED, LISTED)
    routes.note(OWED, LOST)
    assert routes.endpoint(OWED, "tcp://d:1") == "tcp://d:1"
    assert routes.endpoint(OWED, LISTED) == IN_ORDER[0]


def test_a_session_moves_back_once_a_look_reaches_its_preferred_endpoint(
    routes: Routes, clock: SetClock, looks: Looks
) -> None:
    routes.endpoint(OWED, LISTED)
    routes.note(OWED, LOST)
    routes.endpoint(OWED, LISTED)
    assert not routes.is_home_again(OWED)
    clock.now += FIRST_PAUSE
    assert not routes.is_home_again(OWED)
    assert looks.begun == [IN_ORDER[0]]
    looks.probes[0].reached = True
    assert routes.is_home_again(OWED)
    routes.note(OWED, PeerLost("the session moves"))
    assert routes.endpoint(OWED, LISTED) == IN_ORDER[0]
    assert not routes.is_home_again(OWED)


def test_a_look_ends_after_a_time_and_the_next_one_comes_later(routes: Routes, clock: SetClock, looks: Looks) -> None:
    routes.endpoint(OWED, LISTED)
    routes.note(OWED, LOST)
    clock.now += FIRST_PAUSE
    assert not routes.is_home_again(OWED)
    clock.now += LOOK_SECONDS
    assert not routes.is_home_again(OWED)
    clock.now += FIRST_PAUSE / 2
    assert not routes.is_home_again(OWED)
    assert len(looks.begun) == 1
    clock.now += 2 * FIRST_PAUSE
    assert not routes.is_home_again(OWED)
    assert len(looks.begun) == 2


def test_an_endpoint_that_cannot_be_looked_for_is_tried_later(clock: SetClock) -> None:
    def refuse(_: str) -> Probe:
        raise ConfigurationError("the certificate cannot be read")

    routes = Routes(SiteId("paris"), clock, refuse)
    routes.endpoint(OWED, LISTED)
    routes.note(OWED, LOST)
    clock.now += FIRST_PAUSE
    assert not routes.is_home_again(OWED)
    assert routes.endpoint(OWED, LISTED) == IN_ORDER[1]


def test_a_forgotten_session_begins_anew(routes: Routes) -> None:
    routes.endpoint(OWED, LISTED)
    routes.note(OWED, LOST)
    routes.forget(OWED)
    routes.note(OWED, LOST)
    assert not routes.is_home_again(OWED)
    assert routes.endpoint(OWED, LISTED) == IN_ORDER[0]


@pytest.mark.parametrize("kind", RefusalKind)
def test_only_refusals_that_another_server_may_not_give_lead_to_the_next(kind: RefusalKind) -> None:
    elsewhere = {RefusalKind.TRANSIENT, RefusalKind.WRONG_SITE, RefusalKind.PROTOCOL, RefusalKind.UNSPECIFIED}
    assert moves_on(Refused(kind, "no")) is (kind in elsewhere)


def test_no_other_event_than_a_lost_peer_or_a_refusal_leads_to_the_next() -> None:
    others: list[Event] = [happened.Started(), happened.RetryDue(), happened.StopRequested(), happened.CaughtUp()]
    assert [moves_on(event) for event in [*others, LOST]] == [False] * len(others) + [True]
