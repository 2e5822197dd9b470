"""The roles of a ring's server: after an error each lead ends wholly, and the next one begins."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy import Engine

from discovery.ring_status import RingStatus
from lr_server.ring_roles import NewRoles, RingRoles
from lr_server.session.traffic import Traffic
from lr_server.site_roles import SiteRoles
from lr_server.source.log_access import LogAccess
from queues.clock import SYSTEM_CLOCK
from queues.errors import StoreUnavailableError
from queues.thread_lack import NO_THREAD
from tests.waiting import eventually

FULL = "the disk is full"
THREADS = "can't start new thread"


class Seat:
    """The seat of a member that leads the generation `leads`; 0 while it follows."""

    def __init__(self, leads: int) -> None:
        self.leads = leads
        self.leader_endpoint = ""
        self.trims = False
        self.is_stopped = False

    @property
    def status(self) -> RingStatus:
        return RingStatus(1, "leading" if self.leads else "following", leader=1 if self.leads else 0)

    def released(self) -> int:
        return 0

    def start(self) -> None:
        """Begin nothing."""

    def trimmable(self) -> int:
        return 0

    def stop(self) -> None:
        self.is_stopped = True


class Refusing(SiteRoles):
    """Roles that cannot begin."""

    def __init__(self) -> None:
        pass

    def start(self) -> None:
        raise StoreUnavailableError(FULL)

    def stop(self) -> None:
        """End nothing."""


def refusing(_access: LogAccess, _traffic: Traffic) -> SiteRoles:
    return Refusing()


class Leads:
    """Makes the roles of each lead; some of them fail. `steps` are the beginnings and ends that were completed."""

    def __init__(self, *, failing_ends: int = 0, failing_leads: int = 0) -> None:
        self.steps: list[str] = []
        self._failing_ends, self._failing_leads = failing_ends, failing_leads

    def __call__(self, access: LogAccess, _traffic: Traffic) -> SiteRoles:
        if self._failing_leads:
            self._failing_leads -= 1
            raise RuntimeError(THREADS)
        return Passing(self, access.generation)

    def end(self, generation: int) -> None:
        if self._failing_ends:
            self._failing_ends -= 1
            raise RuntimeError(THREADS)
        self.steps.append(f"{generation} ends")


class Passing(SiteRoles):
    """Roles that tell their lead of their beginning and end."""

    def __init__(self, leads: Leads, generation: int) -> None:
        self._leads, self._generation = leads, generation
        self.name = "passing"

    def start(self) -> None:
        self._leads.steps.append(f"{self._generation} begins")

    def stop(self) -> None:
        self._leads.end(self._generation)

    @property
    def is_sequencer(self) -> bool:
        return True

    @property
    def trouble(self) -> str:
        return ""


@pytest.fixture
def running(site: Engine) -> Iterator[Callable[[Seat, NewRoles], RingRoles]]:
    with ExitStack() as stack:

        def begin(seat: Seat, new_roles: NewRoles) -> RingRoles:
            roles = RingRoles(site, seat, new_roles, clock=SYSTEM_CLOCK)  # type: ignore[arg-type]
            stack.callback(roles.stop)
            roles.start()
            return roles

        yield begin


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_no_lead_begins_before_the_roles_of_the_earlier_one_have_ended(running) -> None:
    seat, leads = Seat(leads=7), Leads(failing_ends=2)
    roles = running(seat, leads)
    eventually(lambda: roles.is_sequencer)
    seat.leads = 9
    eventually(lambda: roles.trouble == NO_THREAD)
    assert not roles.is_sequencer
    eventually(lambda: roles.is_sequencer and not roles.trouble, timeout=60)
    assert leads.steps == ["7 begins", "7 ends", "9 begins"]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_lead_begins_after_an_error_of_the_thread_of_the_roles(running) -> None:
    seat, leads = Seat(leads=7), Leads(failing_leads=2)
    roles = running(seat, leads)
    eventually(lambda: roles.is_sequencer, timeout=60)
    assert (leads.steps, roles.trouble, seat.is_stopped) == (["7 begins"], "", False)


class BrokenSeat(Seat):
    """A seat that ends the thread of the roles at the next look once `error` is set."""

    error: BaseException | None = None

    @property
    def leads(self) -> int:
        if self.error is not None:
            raise self.error
        return self._leads

    @leads.setter
    def leads(self, generation: int) -> None:
        self._leads = generation


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_member_leads_no_more_after_the_end_of_the_thread_of_the_roles(running) -> None:
    seat, leads = BrokenSeat(leads=7), Leads()
    roles = running(seat, leads)
    eventually(lambda: roles.is_sequencer)
    seat.error = asyncio.CancelledError()
    eventually(lambda: seat.is_stopped)
    assert leads.steps == ["7 begins", "7 ends"]
    assert not roles.is_sequencer
    assert roles.trouble == "the thread lrq-ring-roles has ended by an error of its own: CancelledError"


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_lead_that_could_not_begin_is_no_trouble_once_another_member_leads(site: Engine) -> None:
    seat = Seat(leads=7)
    roles = RingRoles(site, seat, refusing, clock=SYSTEM_CLOCK)  # type: ignore[arg-type]
    roles.start()
    try:
        eventually(lambda: roles.trouble == FULL)
        seat.leads = 0
        eventually(lambda: not roles.trouble)
    finally:
        roles.stop()
