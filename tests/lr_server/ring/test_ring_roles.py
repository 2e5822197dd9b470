"""The roles of a ring's server: the trouble of a lead that could not begin ends with that lead."""

import pytest
from sqlalchemy import Engine

from discovery.ring_status import RingStatus
from lr_server.ring_roles import RingRoles
from lr_server.session.traffic import Traffic
from lr_server.site_roles import SiteRoles
from lr_server.source.log_access import LogAccess
from queues.clock import SYSTEM_CLOCK
from queues.errors import StoreUnavailableError
from tests.waiting import eventually

FULL = "the disk is full"


class Seat:
    """The seat of a member that leads the generation `leads`; 0 while it follows."""

    def __init__(self, leads: int) -> None:
        self.leads = leads
        self.leader_endpoint = ""
        self.trims = False

    @property
    def status(self) -> RingStatus:
        return RingStatus(1, "leading" if self.leads else "following", leader=1 if self.leads else 0)

    def released(self) -> int:
        return 0

    def start(self) -> None:
        """Begin nothing."""

    def stop(self) -> None:
        """End nothing."""


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
