"""Servers of a site share its ranges: every range is led by one of them, which is alive."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, text, update

from queues.clock import SystemClock
from queues.database import leases, servers, tables
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.errors import ConfigurationError, LrqError, OwnershipLostError
from tests.discovery.members import Member, claim, counted, jump, leaders, refused, register, seen_after_jump
from tests.faults.standing_still import standing_still
from tests.forked import Popen
from tests.seen_statements import seen_statements
from tests.waiting import eventually

pytestmark = pytest.mark.long

ALL = set(range(8))


@pytest.fixture
def member(site: Engine) -> Iterator[Callable[..., Member]]:
    made: list[Member] = []

    def make(**options: object) -> Member:
        made.append(Member(site, **options))
        made[-1].membership.start()
        return made[-1]

    yield make
    for one in made:
        one.membership.stop()


def woken(*members: Member) -> bool:
    for one in members:
        one.membership.wake()
    return True


def test_a_server_alone_leads_all_ranges(site: Engine, member: Callable[..., Member]) -> None:
    one = member()
    eventually(lambda: one.told)
    assert one.numbers == ALL
    assert one.told == [dict(one.membership.held)]
    assert refused(site, *one.membership.held.values()) is None
    eventually(lambda: one.membership.reason == "servers: leads 8 of 8 ranges; servers of the site: 1")
    assert one.membership.view.living[one.name].endpoints == ("tcp://127.0.0.1:7400",)


def test_three_servers_share_the_ranges_and_each_range_has_one_leader(
    site: Engine, member: Callable[..., Member]
) -> None:
    three = [member(), member(), member()]
    eventually(lambda: woken(*three) and sorted(len(one.numbers) for one in three) == [2, 3, 3])
    assert set().union(*(one.numbers for one in three)) == ALL
    assert leaders(site) == {number: one.name for one in three for number in one.numbers}
    for one in three:
        assert refused(site, *one.membership.held.values()) is None


def test_the_ranges_of_a_server_that_stops_go_to_the_others(site: Engine, member: Callable[..., Member]) -> None:
    one, two = member(), member()
    eventually(lambda: woken(one, two) and len(two.numbers) == len(one.numbers) == 4)
    former = dict(one.membership.held)
    one.membership.stop()
    assert one.told[-1] == {}
    eventually(lambda: woken(two) and two.numbers == ALL)
    assert all(two.membership.held[number].generation > lease.generation for number, lease in former.items())
    assert one.name not in servers.look(site).living


def test_a_range_is_released_only_after_its_sessions_have_ended(site: Engine, member: Callable[..., Member]) -> None:
    may_end, ending = threading.Event(), threading.Event()

    def work(held: Mapping[int, Lease]) -> None:
        if len(held) < 8:
            ending.set()
            assert may_end.wait(20)

    one = member(work=work)
    eventually(lambda: one.numbers == ALL)
    two = member()
    eventually(lambda: woken(one) and ending.is_set())
    for _ in range(3):
        seen = two.membership.view
        eventually(lambda: woken(two) and two.membership.view is not seen)  # noqa: B023 - called in this turn
    assert set(leaders(site).values()) == {one.name}
    may_end.set()
    eventually(lambda: woken(two) and len(two.numbers) == 4)


def test_a_server_renews_while_its_sessions_end(site: Engine, member: Callable[..., Member]) -> None:
    may_end = threading.Event()
    one = member(ttl=0.6, work=lambda _: may_end.wait(20) and None)
    eventually(lambda: one.told)
    seen = {_expiry(site, one.name)}
    eventually(lambda: seen.add(_expiry(site, one.name)) or len(seen) > 3)
    assert _expiry(site, one.name) > 0
    may_end.set()


def test_a_server_that_renews_no_more_loses_its_ranges_after_its_time(
    site: Engine, member: Callable[..., Member]
) -> None:
    register(site, "elsewhere", count=8, term=0.5)
    former = claim(site, "elsewhere", *ALL)
    one = member()
    eventually(lambda: one.numbers == ALL)
    assert isinstance(refused(site, *former), OwnershipLostError)


def test_a_living_server_of_another_machine_keeps_its_ranges_until_it_releases_them(
    site: Engine, member: Callable[..., Member]
) -> None:
    register(site, "elsewhere", count=8)
    held = claim(site, "elsewhere", *ALL)
    one = member()
    eventually(lambda: one.membership.view)
    servers.release(site, held[:4])
    eventually(lambda: one.numbers == {0, 1, 2, 3})
    assert refused(site, *held[4:]) is None


def test_the_ranges_of_a_dead_process_are_taken_over_at_once(site: Engine, member: Callable[..., Member]) -> None:
    program = "from discovery.processes import owner_name; print(owner_name())"
    gone = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    register(site, gone, count=8, term=3600)
    claim(site, gone, *ALL)
    one = member(ttl=3600)
    eventually(lambda: one.numbers == ALL)


def test_a_server_whose_row_expired_tells_its_losses_before_it_counts_as_living_again(
    site: Engine, member: Callable[..., Member]
) -> None:
    lived: list[bool] = []

    def work(held: Mapping[int, Lease]) -> None:
        if len(held) == 6:
            lived.append(one.name in servers.look(site).living)

    one = member(work=work)
    eventually(lambda: one.numbers == ALL)
    servers.remove(site, one.name)
    register(site, "elsewhere", count=8, term=600)
    claim(site, "elsewhere", 2, 5)
    one.membership.wake()
    eventually(lambda: lived)
    assert lived == [False]
    assert one.told[1].keys() == ALL - {2, 5}
    eventually(lambda: one.name in servers.look(site).living)


def test_servers_with_another_number_of_ranges_are_refused_at_the_start(
    site: Engine, member: Callable[..., Member]
) -> None:
    one = member(ranges=8)
    with pytest.raises(ConfigurationError, match="share 8 ranges, not 4"):
        member(ranges=4)
    eventually(lambda: one.numbers == ALL)


def test_no_range_is_led_while_an_older_lrq_works_for_the_site(site: Engine, member: Callable[..., Member]) -> None:
    one = member()
    eventually(lambda: one.numbers == ALL)
    lease = leases.acquire(site, "server", "older", ttl=60)
    eventually(lambda: woken(one) and "an older lrq works for the site alone: older" in one.membership.reason)
    assert one.membership.trouble == one.membership.reason
    assert (one.numbers, one.told[-1]) == (set(), {})
    assert set(leaders(site).values()) == {""}
    leases.release(site, lease)
    eventually(lambda: woken(one) and one.numbers == ALL)


def test_the_sequencer_is_no_older_lrq(site: Engine, member: Callable[..., Member]) -> None:
    one = member()
    leases.acquire(site, "server", one.name, ttl=60)
    eventually(lambda: one.numbers == ALL)
    eventually(lambda: woken(one) and one.membership.view.sequencer)
    assert one.membership.view.sequencer.owner == one.name
    assert one.numbers == ALL


def test_a_lost_range_ends_only_its_own_sessions(site: Engine, member: Callable[..., Member]) -> None:
    one = member()
    eventually(lambda: one.numbers == ALL)
    others = dict(one.membership.held)
    lost = others.pop(3)
    with writing(site) as connection:
        row = tables.servers.ranges.c
        connection.execute(
            update(tables.servers.ranges).where(row.number == 3).values(generation=lost.generation + 100)
        )
    one.membership.give_up(OwnershipLostError("range 3", lost.generation, lost.generation + 100))
    eventually(lambda: len(one.told) >= 3)
    assert one.told[1] == others
    assert one.told[2].keys() == ALL
    assert one.told[2][3].generation > lost.generation + 100


def test_a_failure_of_the_work_frees_all_ranges_and_the_server_takes_part_again_after_a_rest(
    site: Engine, member: Callable[..., Member]
) -> None:
    # The rest of the first one is longer than a busy machine stands still.
    one = member(ttl=5)
    eventually(lambda: one.numbers == ALL)
    two = member()
    eventually(lambda: woken(one, two) and len(two.numbers) == 4)
    one.membership.give_up(LrqError("a bug"))
    eventually(lambda: woken(two) and any(held.keys() == ALL for held in two.told))
    assert {} in one.told
    eventually(lambda: woken(two) and len(one.numbers) == 4)


def test_a_call_that_fails_frees_all_ranges(site: Engine, member: Callable[..., Member]) -> None:
    def work(held: Mapping[int, Lease]) -> None:
        if held:
            raise LrqError("no session can begin")

    one = member(work=work)
    eventually(lambda: len(one.told) == 2)
    eventually(lambda: "no session can begin; all ranges are free" in one.membership.reason)
    assert one.told[-1] == {}
    assert set(leaders(site).values()) == {""}


def test_a_server_that_stood_still_tells_that_its_row_has_expired(site: Engine, member: Callable[..., Member]) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(held: Mapping[int, Lease]) -> None:
        if held.keys() != ALL:
            begun.set()
            assert go_on.wait(60)

    one = member(work=work)
    eventually(lambda: "leads 8 of 8" in one.membership.reason)
    assert one.membership.trouble == ""
    jump(site, 3600)
    register(site, "other", count=8)
    claim(site, "other", 3)
    one.membership.wake()
    assert begun.wait(60)
    try:
        assert one.membership.trouble.startswith("servers: this server was away for too long, because its process")
    finally:
        go_on.set()
    eventually(lambda: one.membership.trouble == "")


def test_a_new_branch_is_told(site: Engine, member: Callable[..., Member]) -> None:
    one = member()
    eventually(lambda: one.numbers == ALL)
    with writing(site) as connection:
        connection.execute(update(tables.site.site).values(branch="another"))
    one.membership.wake()
    eventually(lambda: len(one.told) == 2)
    assert one.told[0] == one.told[1]
    assert one.membership.view.branch == "another"


def test_an_unusable_database_is_told_and_tried_again(site: Engine, member: Callable[..., Member]) -> None:
    one = member(ttl=3)
    eventually(lambda: one.numbers == ALL)
    with writing(site) as connection:
        connection.execute(text("ALTER TABLE lrq_servers RENAME TO away"))
    one.membership.wake()
    eventually(lambda: "lrq init" in one.membership.reason)
    assert one.numbers == ALL
    with writing(site) as connection:
        connection.execute(text("ALTER TABLE away RENAME TO lrq_servers"))
    eventually(lambda: "leads 8 of 8" in one.membership.reason)


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()], ids=lambda error: type(error).__name__)
def test_a_membership_whose_own_thread_ends_frees_its_ranges_and_tells_it(site: Engine, error: BaseException) -> None:
    class Broken(SystemClock):
        def wait(self, event: threading.Event, timeout: float) -> bool:
            if threading.current_thread().name == "lrq-servers" and one.numbers:
                raise error
            return super().wait(event, timeout)

    one = Member(site, clock=Broken())
    one.membership.start()
    eventually(lambda: one.ended)
    assert one.told[-1] == {}
    assert set(leaders(site).values()) == {""}
    assert "the thread lrq-servers has ended by an error of its own" in one.membership.reason


def test_stop_inside_a_call_does_not_deadlock(site: Engine) -> None:
    one = Member(site, work=lambda _: one.membership.stop())
    one.membership.start()
    eventually(lambda: one.membership.reason == "servers: stopped")
    assert set(leaders(site).values()) == {""}


def test_a_membership_that_was_never_started_can_be_stopped(site: Engine) -> None:
    Member(site).membership.stop()


# --- a clock that jumps


def test_a_clock_that_jumps_ahead_moves_no_range_between_living_servers(
    site: Engine, member: Callable[..., Member]
) -> None:
    one, two = member(), member()
    eventually(lambda: woken(one, two) and len(two.numbers) == len(one.numbers) == 4)
    before, generation = leaders(site), counted(site)
    assert seen_after_jump(site, 3600).living == {}
    eventually(lambda: woken(one) and one.name in servers.look(site).living)
    seen = one.membership.view
    eventually(lambda: woken(one) and one.membership.view is not seen)
    eventually(lambda: woken(two) and len(servers.look(site).living) == 2)
    assert (leaders(site), counted(site)) == (before, generation)


def test_a_clock_that_jumps_back_does_not_keep_a_dead_server_alive(site: Engine, member: Callable[..., Member]) -> None:
    register(site, "elsewhere", count=8, term=1)
    former = claim(site, "elsewhere", *ALL)
    one = member(ttl=1)
    jump(site, -3600)
    eventually(lambda: one.numbers == ALL)
    assert isinstance(refused(site, former[0]), OwnershipLostError)


def test_a_clock_that_jumps_back_moves_no_range_of_living_servers(site: Engine, member: Callable[..., Member]) -> None:
    # The term is longer than a busy machine stands still.
    one, two = member(ttl=9), member(ttl=9)
    eventually(lambda: woken(one, two) and len(two.numbers) == len(one.numbers) == 4)
    generation = counted(site)
    jump(site, -3600)
    # Both renew, so their time is that of the new clock.
    eventually(lambda: all(row.expires_us - _now(site) < 60e6 for row in servers.look(site).servers))
    assert counted(site) == generation


# --- real processes

PROGRAM = """
import json, sys, threading
import queues
from discovery.membership import Membership
from discovery.processes import owner_name
from queues.clock import SYSTEM_CLOCK

name = sys.argv[3] or owner_name()
def tell(held):
    print(json.dumps({"held": {number: lease.generation for number, lease in held.items()}}), flush=True)
member = Membership(queues.create_engine(sys.argv[1]), name, ranges=8, ttl=float(sys.argv[2]), clock=SYSTEM_CLOCK,
    endpoints=lambda: ("tcp://127.0.0.1:7400",), on_change=tell, on_ended=lambda error: None)
print(json.dumps({"name": name}), flush=True)
member.start()
sys.stdin.read()
member.stop()
"""


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


class MemberProcess:
    """A real process with one membership; `told` has the held ranges of each call, with their generations."""

    def __init__(self, engine: Engine, ttl: float, name: str = "") -> None:
        self.popen = Popen(
            [sys.executable, "-c", PROGRAM, url_of(engine), str(ttl), name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        self.name = str(json.loads(self.popen.stdout.readline())["name"])
        self.told: list[dict[int, int]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self.popen.stdout:
            self.told.append({int(number): generation for number, generation in json.loads(line)["held"].items()})

    def send(self, number: int) -> None:
        os.kill(self.popen.pid, number)

    def close(self) -> None:
        self.popen.kill()
        self.popen.wait()
        self._reader.join()
        self.popen.stdin.close()
        self.popen.stdout.close()


@contextmanager
def process(engine: Engine, ttl: float, name: str = "") -> Iterator[MemberProcess]:
    one = MemberProcess(engine, ttl, name)
    try:
        yield one
    finally:
        one.close()


@pytest.mark.processes
def test_the_ranges_of_a_killed_process_of_this_machine_are_taken_over_before_it_expires(
    site: Engine, member: Callable[..., Member]
) -> None:
    one = member(ttl=3600)
    with process(site, ttl=3600) as other:
        eventually(lambda: woken(one) and other.told and len(other.told[-1]) == 4)
        generation = counted(site)
        other.send(signal.SIGKILL)
        eventually(lambda: one.numbers == ALL)
    assert {lease.generation > generation for number, lease in one.membership.held.items() if number in other.told[-1]}


@pytest.mark.processes
def test_the_ranges_of_a_killed_process_of_another_machine_are_taken_over_when_it_expires(
    site: Engine, member: Callable[..., Member]
) -> None:
    one = member(ttl=2)
    with process(site, ttl=2, name="elsewhere") as other:
        eventually(lambda: other.told and len(other.told[-1]) == 4)
        other.send(signal.SIGKILL)
        eventually(lambda: one.numbers == ALL)


@pytest.mark.processes
def test_a_stopped_process_that_continues_notices_its_losses_before_it_renews(
    site: Engine, member: Callable[..., Member]
) -> None:
    with process(site, ttl=1) as other:
        eventually(lambda: other.told and len(other.told[-1]) == 8)
        led = other.told[-1]
        with standing_still(other.popen.pid, url_of(site)):
            one = member(ttl=1)
            eventually(lambda: one.numbers == ALL)
            calls, generation, renewed = len(other.told), counted(site), _renewals(site, other.name)
        eventually(lambda: len(other.told) > calls)
        assert other.told[calls] == {}, "all ranges are lost, and that is the first call"
        assert renewed() == 0
        eventually(lambda: len(other.told[-1]) == len(one.numbers) == 4)
    assert all(found > generation >= led[number] for number, found in other.told[-1].items())


def _renewals(engine: Engine, server: str) -> Callable[[], int]:
    """Mark the expired row of a server; return a function that counts renewals of the row by the server's statement."""
    with writing(engine) as connection:
        connection.execute(
            update(tables.servers.servers).where(tables.servers.servers.c.server == server).values(endpoints="expired")
        )

    def renewed() -> int:
        row = next(row for row in servers.look(engine).servers if row.server == server)
        # A renewal leaves the endpoints as they are; a registration, after the losses, writes them.
        return int(row.endpoints == ("expired",) and row.expires_us > _now(engine))

    return renewed


# --- idle cost


def test_an_idle_server_alone_reads_and_writes_only_when_it_renews(site: Engine) -> None:
    one = Member(site)
    one.membership._row.register()
    one.membership._turn()
    statements = seen_statements(site)
    one.membership._turn()
    looks = [each for each in statements if "lrq_servers" in each]
    assert not [each for each in statements if each.startswith(("UPDATE", "INSERT", "DELETE"))]
    assert len(looks) <= 1
    assert one.membership._pause() > 15


def _expiry(engine: Engine, server: str) -> int:
    return next((row.expires_us for row in servers.look(engine).servers if row.server == server), 0)


def _now(engine: Engine) -> int:
    with reading(engine):
        return servers.look(engine).now_us
