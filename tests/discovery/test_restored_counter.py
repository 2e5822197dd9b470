"""A counter that a backup has set back: the generation that a session tells its sink never goes back."""

import random
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, delete, insert, select

from discovery.ranges import range_of
from lr_server.protocol.fencing import Fence, Leap, Outbidding, decide_leap
from queues.database import leases, servers, tables
from queues.database.transactions import writing
from queues.names import ClientName, SiteId
from queues.send_log import sessions
from queues.send_log.port import SessionKey
from queues.states import SessionState
from tests.discovery.members import claim, refused, register

HOUR_US = 3600 * 1_000_000
SITES = [f"site{number}" for number in range(6)]
BACKED_UP = (
    tables.servers.servers,
    tables.servers.ranges,
    tables.servers.generations,
    tables.servers.leases,
    tables.sessions.sessions,
)

Rows = dict[str, list[dict[str, object]]]


class ToldGenerations:
    """The newest generation that each sink knows, and every generation that a session told it."""

    def __init__(self) -> None:
        self.known = dict.fromkeys(SITES, 0)
        self.told: dict[str, list[int]] = {site: [] for site in SITES}

    def accept(self, site: str, generation: int) -> bool:
        if generation < self.known[site]:
            return False
        self.known[site] = generation
        self.told[site].append(generation)
        return True


def backup(engine: Engine) -> Rows:
    with writing(engine) as connection:
        return {table.name: [dict(row) for row in connection.execute(select(table)).mappings()] for table in BACKED_UP}


def restore(engine: Engine, rows: Rows) -> None:
    with writing(engine) as connection:
        for table in BACKED_UP:
            connection.execute(delete(table))
            if rows[table.name]:
                connection.execute(insert(table), rows[table.name])


def negotiate(engine: Engine, sinks: ToldGenerations, ranges: int, times: Iterator[int]) -> None:
    """Let each session tell its generation, and leap if its sink knows a newer one."""
    led = {row.number: row for row in servers.look(engine).ranges}
    for site in SITES:
        owed = SessionKey(ClientName("policy"), SiteId(site))
        row = led[range_of(owed.client, owed.destination, ranges)]
        with writing(engine) as connection:
            fence = Fence(*sessions.stored_fence(connection, owed))
        for _ in range(2):
            told = row.generation + fence.lead
            if sinks.accept(site, told):
                break
            refusal = Outbidding("paris", site, told, sinks.known[site])
            decision = decide_leap(fence, refusal, now_us=next(times), pause_us=0)
            assert isinstance(decision, Leap)
            with writing(engine) as connection:
                assert sessions.replace_fence(connection, owed, fence, decision.fence)
            fence = decision.fence
        else:
            pytest.fail(f"{site} was refused after a leap")


def take_over(engine: Engine, number: int, ranges: int) -> None:
    """Let one new server lead all ranges, in place of the servers before."""
    for row in servers.look(engine).servers:
        servers.remove(engine, row.server)
    register(engine, f"server {number}", count=ranges)
    assert len(claim(engine, f"server {number}", *range(ranges))) == ranges


def test_told_generations_never_go_back_when_a_session_changes_its_range_or_a_backup_is_restored(
    site: Engine, chance: random.Random
) -> None:
    sinks, times, ranges = ToldGenerations(), iter(range(HOUR_US, 10**18, 2 * HOUR_US)), 4
    with writing(site) as connection:
        for name in SITES:
            sessions.add_session(connection, SessionKey(ClientName("policy"), SiteId(name)), SessionState.IDLE, "")
    take_over(site, 0, ranges)
    backups = [(ranges, backup(site))]
    for number in range(1, 40):
        if chance.random() < 0.3:
            _, rows = chance.choice(backups)
            restore(site, rows)
        if chance.random() < 0.4:
            ranges = chance.choice([2, 4, 8, 12])
        take_over(site, number, ranges)
        negotiate(site, sinks, ranges, times)
        backups.append((ranges, backup(site)))
    for told in sinks.told.values():
        assert len(told) == 39
        assert told == sorted(told)


def test_a_session_that_changes_its_range_gets_a_higher_generation(site: Engine) -> None:
    for ranges in (8, 4, 64, 2):
        before = max((row.generation for row in servers.look(site).ranges), default=-1)
        take_over(site, ranges, ranges)
        assert min(row.generation for row in servers.look(site).ranges) > before


def test_a_counter_behind_the_rows_of_an_older_lrq_passes_their_generations(site: Engine) -> None:
    with writing(site) as connection:
        connection.execute(
            insert(tables.servers.leases).values(name="server", owner="older", generation=70, expires_us=0)
        )
    register(site, "a")
    (led,) = claim(site, "a", 0)
    assert led.generation > 70
    lease = leases.acquire(site, "server", "a", ttl=60)
    assert lease.generation > led.generation


def test_a_lost_row_of_the_counter_is_made_again_above_all_generations(site: Engine) -> None:
    register(site, "a")
    (led,) = claim(site, "a", 3)
    with writing(site) as connection:
        connection.execute(delete(tables.servers.generations))
    lease = leases.acquire(site, "server", "a", ttl=60)
    assert lease.generation > led.generation
    assert refused(site, led) is None
