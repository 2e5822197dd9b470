"""Three members with threads and real connections: they agree, lead, replicate, and go on through cuts and losses."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from lr_server.protocol.agreement.effects import Decline
from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.roles import Leading
from lr_server.ring.links import RingLink
from queues.errors import PeerUnreachableError
from tests.certificates import issued
from tests.conftest import NewSite
from tests.lr_server.ring.live import ADDRESS, LiveRing, running
from tests.lr_server.ring.stores import log_rows, transaction, witness_path
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ring(new_site: NewSite) -> Iterator[LiveRing]:
    yield from running([new_site("paris") for _ in RANKS])


def test_the_member_of_rank_0_leads_and_all_three_store_its_ticks(ring: LiveRing):
    ring.led_by(0)
    for number in range(10):
        ring.take(b"%d" % number, b"second")
    assert ring.level(20)[2] == [text for number in range(10) for text in (b"%d" % number, b"second")]
    rows = [log_rows(member.engine) for member in ring.members]
    assert rows[0]["lrq_ticks"] == rows[1]["lrq_ticks"] == rows[2]["lrq_ticks"]
    # The leader tells each new released end once, in order.
    ends = ring.members[0].ends
    assert ends == sorted(set(ends))


def test_a_follower_declines_entries_and_names_the_leader(ring: LiveRing):
    ring.led_by(0)
    ring.take(b"one")
    eventually(lambda: ring.members[2].runner.offer([transaction(b"no")]).result(60) == Decline(
        0, "rank 0 leads this token"))  # fmt: skip


def test_rank_1_takes_over_from_a_stopped_leader_and_gives_back_the_lead(ring: LiveRing):
    ring.led_by(0)
    ring.take(b"one")
    first = ring.members[0]
    first.runner.stop()
    ring.led_by(1)
    ring.take(b"two")
    again = type(first)(first.engine, 0)
    ring.members[0] = again
    for member in ring.members[1:]:
        # The member is back at another endpoint.
        member.links[0].close()
        member.links[0]._link = RingLink(ADDRESS, 0, again.service.endpoints[0])
    endpoints = [member.service.endpoints[0] for member in ring.members]
    again.begin(endpoints)
    first.stack.close()
    ring.led_by(0)
    ring.take(b"three")
    assert ring.level(3) == [[b"one", b"two", b"three"]] * 3


@pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)])
def test_a_cut_of_one_direction_loses_nothing(ring: LiveRing, one: int, other: int):
    ring.led_by(0)
    ring.take(b"before")
    ring.cut(one, other)
    for number in range(5):
        ring.take(b"%d" % number)
    ring.heal()
    ring.led_by(0)
    ring.take(b"after")
    held = ring.level(7)
    assert held[0] == held[1] == held[2]
    # A tick whose release was not seen may be there twice: producers repeat it under its number later.
    assert list(dict.fromkeys(held[0])) == [b"before", *(b"%d" % number for number in range(5)), b"after"]


def test_a_leader_without_followers_takes_no_entries_until_one_is_back(ring: LiveRing):
    leader = ring.led_by(0)
    ring.take(b"before")
    for other in (1, 2):
        ring.cut(0, other)
        ring.cut(other, 0)
    eventually(lambda: not leader.leads, timeout=180)
    answer = leader.runner.offer([transaction(b"no")]).result(60)
    assert isinstance(answer, Decline)
    ring.heal()
    ring.led_by(0)
    ring.take(b"after")
    assert ring.level(2)[0] == [b"before", b"after"]


def test_a_member_without_its_witness_copies_the_log_and_counts_again(ring: LiveRing):
    ring.led_by(0)
    for number in range(70):
        ring.take(b"%d" % number)
    lost = ring.members[2]
    lost.runner.stop()
    witness_path(lost.engine).unlink()
    again = type(lost)(lost.engine, 2)
    ring.members[2] = again
    for member in ring.members[:2]:
        member.links[2].close()
        member.links[2]._link = RingLink(ADDRESS, 2, again.service.endpoints[0])
    again.begin([member.service.endpoints[0] for member in ring.members])
    lost.stack.close()
    eventually(lambda: again.runner.member is not None and again.runner.member.record.store.number == 2, timeout=180)
    assert "begins as a newcomer" in again.runner.alarm_words
    ring.take(b"the last")
    eventually(lambda: again.runner.read(60)[-1].rows[-1].payload == b"the last", timeout=180)


def test_members_meet_over_tls_and_refuse_a_stranger(new_site: NewSite, tmp_path: Path):
    credentials = issued(trustme.CA(), tmp_path)
    stranger = issued(trustme.CA(), tmp_path / "stranger") if (tmp_path / "stranger").mkdir() is None else None
    for ring in running([new_site("paris") for _ in RANKS], credentials):
        ring.led_by(0)
        ring.take(b"one")
        assert ring.level(1)[1] == [b"one"]
        link = RingLink(ADDRESS, 0, ring.members[0].service.endpoints[0], credentials=stranger)
        with pytest.raises(PeerUnreachableError):
            link.pull(0)
        link.close()


def test_a_quiet_ring_begins_no_generation(ring: LiveRing):
    """Signs of life go on and on, and the clocks of all members run."""
    leader = ring.led_by(0)
    ring.take(b"one")
    role = leader.runner.member.role
    assert isinstance(role, Leading)
    seen = [0]

    class Counting:
        def __init__(self, link) -> None:
            self._link = link

        def send(self, parcel) -> None:
            seen[0] += 1
            self._link.send(parcel)

        def __getattr__(self, name):
            return getattr(self._link, name)

    leader.links[1] = Counting(leader.links[1])  # type: ignore[assignment]
    eventually(lambda: seen[0] >= 30, timeout=180)
    assert leader.runner.member.role.generation == role.generation
