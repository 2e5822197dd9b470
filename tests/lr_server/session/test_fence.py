"""The generation that a session tells is above all earlier ones, under each later owner."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, select

from lr_server.protocol.events import RefusalKind, Refused
from lr_server.session import table
from lr_server.session.fence import SessionFence
from queues.clock import SYSTEM_CLOCK
from queues.database import servers, tables
from queues.database.leases import Lease
from queues.database.transactions import reading
from queues.errors import OwnershipLostError, StoreUnavailableError
from queues.leadership import range_lease
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey
from tests.leading import lead

OWED = SessionKey(ClientName("policy"), SiteId("tokyo"))


def stale(known: int) -> Refused:
    return Refused(RefusalKind.STALE_LEADER, "replaced", known)


@pytest.fixture
def fence(site: Engine) -> Callable[[], SessionFence]:
    """Give a function that acquires the session's range and returns the session's fence under that lease."""
    table.ensure(site, OWED)

    def begin() -> SessionFence:
        (lease,) = lead(site)
        return under(site, lease)

    return begin


def under(site: Engine, lease: Lease) -> SessionFence:
    made = SessionFence(site, SiteId("paris"), OWED, lease, pause_seconds=0, clock=SYSTEM_CLOCK)
    made.read()
    return made


def test_a_session_without_a_leap_tells_the_generation_of_the_lease(fence: Callable[[], SessionFence]):
    assert [fence().generation, fence().generation] == [1, 2]


def test_after_a_leap_each_later_owner_tells_a_higher_generation(site: Engine, fence: Callable[[], SessionFence]):
    first = fence()
    again = first.answer(stale(40))
    assert again.kind is RefusalKind.TRANSIENT
    assert first.generation == 41
    assert fence().generation == 42
    assert [row.generation for row in servers.look(site).ranges] == [2]


def test_a_replaced_server_learns_it_from_its_own_database(fence: Callable[[], SessionFence]):
    paused, newer = fence(), fence()
    with pytest.raises(OwnershipLostError):
        paused.answer(stale(40))
    paused.read()
    assert paused.generation == 1
    newer.read()
    assert newer.generation == 2


def test_the_leader_of_a_ring_tells_its_generation_and_never_goes_higher(site: Engine):
    table.ensure(site, OWED)
    (lease,) = lead(site)
    clock = {"pause_seconds": 0, "clock": SYSTEM_CLOCK}
    fence = SessionFence(site, SiteId("paris"), OWED, lease, ring_generation=6, **clock)
    fence.read()
    assert fence.generation == 6
    refused = fence.answer(stale(7))
    assert refused.kind is RefusalKind.STALE_LEADER
    assert "knows a later leader of the ring than generation 6" in refused.reason
    assert fence.generation == 6
    assert fence.holder == ""


def test_only_a_leap_that_happened_is_logged(fence: Callable[[], SessionFence], caplog: pytest.LogCaptureFixture):
    paused, newer = fence(), fence()
    with pytest.raises(OwnershipLostError):
        paused.answer(stale(40))
    assert "newer generation" not in caplog.text
    newer.answer(stale(40))
    assert "goes on as 41, not as 2" in caplog.text


def test_of_two_servers_with_the_same_fence_only_one_leaps(site: Engine, fence: Callable[[], SessionFence]):
    one = fence()
    (row,) = servers.look(site).ranges
    # The commit of an earlier owner may come after the takeover; this object stands for that owner.
    other = under(site, range_lease(row))
    one.answer(stale(40))
    with pytest.raises(StoreUnavailableError, match="changed the fence"):
        other.answer(stale(40))
    other.read()
    assert other.generation == 41


def test_a_refusal_for_good_changes_nothing(site: Engine, fence: Callable[[], SessionFence]):
    told = fence().answer(stale(0))
    assert told.kind is RefusalKind.STALE_LEADER
    with reading(site) as connection:
        row = connection.execute(select(tables.sessions.sessions)).one()
    assert (row.lead, row.leaps, row.leaped_us) == (0, 0, 0)


def test_leaps_that_a_sink_accepts_for_a_moment_still_count(fence: Callable[[], SessionFence]):
    one = fence()
    for known in range(10, 15):
        assert one.answer(stale(known)).kind is RefusalKind.TRANSIENT
        one.note_success()
    assert one.answer(stale(15)).kind is RefusalKind.STALE_LEADER


def test_a_later_owner_leaps_no_more_either(fence: Callable[[], SessionFence]):
    one = fence()
    for known in range(10, 16):
        one.answer(stale(known))
    assert fence().answer(stale(40)).kind is RefusalKind.STALE_LEADER


def test_a_session_leaps_again_after_an_operator_has_helped(fence: Callable[[], SessionFence]):
    one = fence()
    for known in range(10, 16):
        one.answer(stale(known))
    one.note_success()
    assert one.answer(stale(40)).kind is RefusalKind.TRANSIENT
