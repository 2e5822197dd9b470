"""Generations change at the start, loss and return of a server, and at no other time."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection

import queues
from discovery import look_times
from queues.database import leases
from tests.conftest import NewSite
from tests.discovery.members import Member, SimulatedClock, counted, leaders
from tests.seen_statements import seen_statements

pytestmark = pytest.mark.long

HOUR = 3600.0


@dataclass
class QuietSite:
    """Servers whose turns run one after the other, each at the simulated time at which its thread would wake up."""

    clock: SimulatedClock
    due: dict[Member, float]

    def join(self, member: Member) -> None:
        member.membership._row.register()
        self.due[member] = self.clock.monotonic()

    def run(self, seconds: float) -> None:
        end = self.clock.monotonic() + seconds
        while self.due:
            member, moment = min(self.due.items(), key=lambda item: item[1])
            if moment > end:
                break
            self.clock.pass_time(max(moment - self.clock.monotonic(), 0.0))
            member.membership._turn()
            self.due[member] = self.clock.monotonic() + member.membership._pause()
        self.clock.pass_time(end - self.clock.monotonic())

    def kill(self, member: Member) -> None:
        del self.due[member]


@pytest.fixture
def site(new_site: NewSite, dialect: str) -> Iterator[Engine]:
    """Give a site whose commits do not wait for the disk: an hour has a thousand turns."""
    quick = queues.create_engine(new_site("paris").url)
    setting = "PRAGMA synchronous = OFF" if dialect == "sqlite" else "SET synchronous_commit = off"

    @event.listens_for(quick, "connect")
    def _hasten(connection: DBAPIConnection, _entry: object) -> None:
        connection.cursor().execute(setting)
        connection.commit()

    yield quick
    quick.dispose()


@pytest.fixture
def quiet(site: Engine) -> QuietSite:
    return QuietSite(SimulatedClock(site), {})


def joined(quiet: QuietSite, site: Engine, *names: str, ttl: float = 10) -> list[Member]:
    made = [Member(site, ranges=64, ttl=ttl, clock=quiet.clock, name=name) for name in names]
    for member in made:
        quiet.join(member)
    return made


@pytest.mark.timeout(600)
def test_an_hour_of_three_servers_takes_no_generation(
    site: Engine, quiet: QuietSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_times, "LOOK", 10.0)  # a thousand turns in place of ten thousand
    three = joined(quiet, site, "a", "b", "c", ttl=30)
    quiet.run(90)
    assert sorted(len(member.numbers) for member in three) == [21, 21, 22]
    generation, calls, before = counted(site), [len(member.told) for member in three], leaders(site)
    quiet.run(HOUR)
    assert counted(site) == generation
    assert [len(member.told) for member in three] == calls
    assert leaders(site) == before


def test_a_start_a_loss_and_a_return_take_generations_for_the_moved_ranges_only(site: Engine, quiet: QuietSite) -> None:
    one, two = joined(quiet, site, "a", "b")
    quiet.run(30)
    before = dict(one.membership.held), counted(site)
    quiet.kill(two)
    quiet.run(10)
    assert len(one.numbers) == 64, "taken over within one lease"
    assert before[0].items() <= dict(one.membership.held).items()
    assert min(one.membership.held[number].generation for number in one.numbers - before[0].keys()) > before[1]
    generation = counted(site)
    (returned,) = joined(quiet, site, "b again")
    quiet.run(30)
    assert len(returned.numbers) == 32
    assert min(lease.generation for lease in returned.membership.held.values()) > generation


def test_a_killed_server_is_replaced_within_one_lease_at_any_moment(site: Engine, quiet: QuietSite) -> None:
    for number in range(6):
        one, two = joined(quiet, site, f"one {number}", f"two {number}")
        quiet.run(40 + number * 0.74)
        assert len(two.numbers) == 32
        quiet.kill(two)
        quiet.run(10)
        assert len(one.numbers) == 64
        quiet.kill(one)
        quiet.run(20)


def test_a_server_alone_carries_out_few_statements_in_a_lease(site: Engine, quiet: QuietSite) -> None:
    joined(quiet, site, "a")
    quiet.run(30)
    statements = seen_statements(site)
    quiet.run(100)
    of_servers = [each for each in statements if "lrq_servers" in each and "expires_us -" not in each]
    renewals = [each for each in of_servers if each.startswith("UPDATE")]
    assert len(renewals) <= 31, "3 in each lease"
    assert len(of_servers) <= 62, "and as many looks"


def test_the_lease_of_the_sequencer_takes_no_generation_when_it_is_renewed(site: Engine) -> None:
    lease = leases.acquire(site, "server", "a", ttl=60)
    for _ in range(10):
        leases.renew(site, lease, ttl=60)
    assert counted(site) == lease.generation == 1
