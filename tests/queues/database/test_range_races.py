"""Claims that race: a generation never repeats nor goes back, and a range has one leader that passes the check."""

import random
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

import pytest
from sqlalchemy import Engine

from queues.database import leases, servers
from queues.database.leases import Lease
from queues.database.postgresql.rewriting import rewrite
from queues.database.postgresql.truncation import BusyError
from queues.database.transactions import writing
from queues.errors import OwnershipLostError, StoreUnavailableError
from tests.discovery.members import jump, register

pytestmark = pytest.mark.long

HISTORIES = 100
NAMES = ("a", "b", "c")
COUNT = 3


class RangeHistory:
    """All acquisitions of one site, and the acquisitions that each server believes in."""

    def __init__(self, site: Engine) -> None:
        self.site = site
        self.taken: list[Lease] = []
        self.believed: dict[str, dict[str, Lease]] = defaultdict(dict)
        self._guard = threading.Lock()

    def note(self, name: str, found: list[Lease]) -> None:
        with self._guard:
            self.taken += found
            self.believed[name].update((lease.name, lease) for lease in found)

    def claim(self, name: str, chance: random.Random) -> None:
        register(self.site, name, count=COUNT)
        wanted = [row for row in servers.look(self.site).ranges if chance.random() < 0.8]
        self.note(name, servers.claim(self.site, name, wanted))

    def release(self, name: str, chance: random.Random) -> None:
        mine = [lease for key, lease in self.believed[name].items() if key != "server"]
        freed = [lease for lease in mine if chance.random() < 0.5]
        servers.release(self.site, freed)
        for lease in freed:
            del self.believed[name][lease.name]

    def expire(self, name: str, chance: random.Random) -> None:
        """The server goes on believing, as a stopped process does."""
        servers.remove(self.site, chance.choice(NAMES))

    def own(self, name: str, chance: random.Random) -> None:
        lease = leases.acquire(self.site, "server", name, ttl=chance.choice([0, 60]))
        self.note(name, [lease] if lease else [])

    def passes(self, name: str, lease: Lease) -> bool:
        try:
            with writing(self.site) as connection:
                servers.check_ranges(connection, [lease])
        except OwnershipLostError:
            return False
        return True

    def assert_sound(self) -> None:
        generations = [lease.generation for lease in self.taken]
        assert len(set(generations)) == len(generations), "a generation repeats"
        rows = {f"range {row.number}": row for row in servers.look(self.site).ranges}
        for key, row in rows.items():
            newest = max((lease.generation for lease in self.taken if lease.name == key), default=0)
            assert row.generation == newest, "a generation went back"
            holders = [
                name for name in NAMES if key in self.believed[name] and self.passes(name, self.believed[name][key])
            ]
            assert len(holders) <= 1, f"{key} has two leaders"


@pytest.mark.timeout(600)
def test_a_hundred_random_histories_of_racing_servers(site: Engine, chance: random.Random) -> None:
    history = RangeHistory(site)
    register(site, *NAMES, count=COUNT)
    seeds = [chance.randrange(10**9) for _ in range(HISTORIES)]
    actions: list[Callable[[RangeHistory, str, random.Random], None]] = [
        RangeHistory.claim, RangeHistory.claim, RangeHistory.release, RangeHistory.expire, RangeHistory.own,
    ]  # fmt: skip
    for seed in seeds:
        failures: list[Exception] = []

        def act(name: str, own: random.Random, barrier: threading.Barrier) -> None:
            barrier.wait()
            try:
                for _ in range(3):
                    # PostgreSQL ends a transaction that stood still for long, as on a machine with much to do.
                    with suppress(StoreUnavailableError):
                        own.choice(actions)(history, name, own)
            except Exception as error:  # noqa: BLE001 - shown at the end of the turn
                failures.append(error)  # noqa: B023 - the threads end in this turn

        barrier = threading.Barrier(len(NAMES))
        threads = [threading.Thread(target=act, args=(name, random.Random(f"{seed}{name}"), barrier)) for name in NAMES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        history.assert_sound()
    assert len(history.taken) > HISTORIES


def test_one_of_many_simultaneous_claims_leads_each_range(site: Engine) -> None:
    names = [f"server {number}" for number in range(8)]
    register(site, *names, count=4)
    wanted = servers.look(site).ranges
    got: list[Lease] = []
    barrier = threading.Barrier(len(names))

    def contend(name: str) -> None:
        barrier.wait()
        got.extend(servers.claim(site, name, wanted))

    threads = [threading.Thread(target=contend, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(lease.name for lease in got) == [f"range {number}" for number in range(4)]
    with writing(site) as connection:
        servers.check_ranges(connection, got)


def test_a_server_that_renews_in_time_keeps_its_ranges_against_a_claim_that_saw_it_expired(site: Engine) -> None:
    register(site, "a", "b", count=2)
    wanted = servers.look(site).ranges
    held = servers.claim(site, "a", wanted)
    jump(site, 3600)
    seen = servers.look(site).ranges
    register(site, "a", "b", count=2)
    assert servers.claim(site, "b", seen) == []
    with writing(site) as connection:
        servers.check_ranges(connection, held)


def test_a_claim_of_a_range_that_has_changed_since_the_look_does_nothing(site: Engine) -> None:
    register(site, "a", "b", count=1)
    seen = servers.look(site).ranges
    first = servers.claim(site, "a", seen)
    servers.release(site, first)
    assert servers.claim(site, "b", seen) == []


def test_looks_find_all_servers_while_their_table_is_rewritten(site: Engine, dialect: str) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite keeps no dead rows")
    names = [f"server {number}" for number in range(5)]
    register(site, *names)
    ended, wrong = threading.Event(), list[object]()

    def look() -> None:
        while not ended.is_set():
            try:
                found = sorted(servers.look(site).living)
            except StoreUnavailableError:
                continue  # the lock for the rewriting came first
            if found != names:
                wrong.append(found)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    rewritten = 0
    for number in range(1500):
        servers.renew(site, names[number % 5], 60)
        if number % 10 == 0:
            with writing(site) as connection:
                connection.exec_driver_sql("SELECT 1")
            try:
                with writing(site) as connection:
                    rewritten += rewrite(connection)
            except (BusyError, StoreUnavailableError):
                pass
    ended.set()
    for thread in threads:
        thread.join()
    assert wrong == []
