"""The member of a server: the leader that it knows, and the ticks that sessions may read."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from lr_server.protocol.agreement.record import founders
from lr_server.protocol.agreement.roles import Fenced, Following, Leading, Newcomer, RingMember
from lr_server.ring.member_state import known_leader, led_generation
from lr_server.ring.seat import RingSeat, SeatPlace
from lr_server.ring_setting import RingSetting
from queues.clock import SYSTEM_CLOCK
from tests.lr_server.ring.stores import UIDS


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_sessions_may_read_a_released_tick_as_soon_as_they_are_woken(site: Engine, tmp_path: Path):
    setting = RingSetting(members=[f"ipc:///tmp/m{rank}" for rank in range(3)], rank=0, witness=tmp_path / "witness")
    seen: list[int] = []
    seat = RingSeat(
        site, SeatPlace("paris", setting, None), on_change=lambda: seen.append(seat.released()), clock=SYSTEM_CLOCK
    )
    seat.runner.release(4)
    seat.runner.release(7)
    assert seen == [4, 7]
    assert seat.status.role == "closed"


def member(role: object, *, rank: int = 0, promised: int = 0, released: int = 0) -> RingMember:
    record = founders(UIDS)[rank]
    return RingMember(type(record)(rank, record.stores, promised), role, released=released)


@pytest.mark.parametrize(
    ("state", "led", "leader"),
    [
        (None, 0, None),
        (member(Newcomer()), 0, None),
        (member(Following(hears=True), rank=2, promised=4), 0, 0),
        (member(Following(hears=True), rank=0, promised=5), 0, 1),
        (member(Following(), rank=2, promised=4), 0, None),
        (member(Fenced(), promised=4), 0, None),
        (member(Leading(4, 9, (0, 0, 0)), promised=4, released=8), 0, None),
        (member(Leading(4, 9, (0, 9, 0)), promised=4, released=9), 4, 0),
    ],
)
def test_a_member_leads_once_a_follower_has_its_seal(state: RingMember | None, led: int, leader: int | None):
    assert (led_generation(state), known_leader(state)) == (led, leader)
