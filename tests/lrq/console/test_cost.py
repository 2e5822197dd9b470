"""The console costs a site little: few readings, few connections, no lock, and no wait for another site."""

import asyncio
import sqlite3
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, Engine, create_engine, event

from lrq.console.reading import PageThreads, reader
from lrq.console.repeated import SHARE, UNWATCHED, WATCHED, Repeated, pause_after
from queues.clock import SYSTEM_CLOCK
from tests.waiting import eventually

TABS = 50
#: Every kind of page; those of parked transactions and snapshots read their lists.
PAGES = [
    "/", "/entries?site=paris&all=1", "/snapshots", "/parked?site=paris", "/actions",
    "/parked/blocked?site=paris&client=policy&source=tokyo", "/link?site=paris&client=policy&to=tokyo",
    "/replays", "/replay?site=paris&client=policy&source=tokyo",
]  # fmt: skip


class Counted:
    """Counts the transactions on an engine, and the most connections in use at one moment."""

    def __init__(self, engine: Engine) -> None:
        self.begun = self.most = self._used = 0
        self._guard = threading.Lock()
        event.listen(engine, "begin", self._begin)
        event.listen(engine, "checkout", lambda *_: self._use(1))
        event.listen(engine, "checkin", lambda *_: self._use(-1))

    def _begin(self, connection: Connection) -> None:
        with self._guard:
            self.begun += 1

    def _use(self, more: int) -> None:
        with self._guard:
            self._used += more
            self.most = max(self.most, self._used)


async def _tab(client: httpx.AsyncClient, changes: int) -> int:
    """Load the map after each change, as a visible tab does; return the number of loads."""
    loads = 0
    async with client.stream("GET", "/events") as stream:
        assert stream.status_code == 200
        async for line in stream.aiter_lines():
            if line == "event: change":
                assert (await _loaded(client)).status_code == 200
                loads += 1
                if loads == changes:
                    break
    return loads


async def _loaded(client: httpx.AsyncClient) -> httpx.Response:
    """Load the map as a browser does: again if the server has just closed a quiet connection."""
    for _ in range(TABS):
        with suppress(httpx.ReadError, httpx.RemoteProtocolError):
            return await client.get("/")
    return await client.get("/")


async def _tabs(origin: str, changes: int) -> list[int]:
    limits = httpx.Limits(max_connections=2 * TABS)
    async with httpx.AsyncClient(base_url=origin, limits=limits, timeout=60) as client:
        return await asyncio.gather(*(_tab(client, changes) for _ in range(TABS)))


@pytest.mark.long
def test_fifty_tabs_share_one_reading_of_each_site_in_each_interval(new_site, visit):
    engines = {name: new_site(name) for name in ("paris", "tokyo", "lima")}
    visitor = visit(engines)
    counted = {name: Counted(engine) for name, engine in engines.items()}
    began = SYSTEM_CLOCK.monotonic()
    loads = asyncio.run(_tabs(visitor.origin, 6))
    most = (SYSTEM_CLOCK.monotonic() - began) / WATCHED + 1
    assert loads == [6] * TABS
    for each in counted.values():
        assert 1 <= each.begun <= most
        assert each.most == 1


async def _visit(client: httpx.AsyncClient, path: str) -> int:
    """Open a page as an operator does: again, if a busy machine did not answer in time."""
    for _ in range(TABS):
        answer = await client.get(path)
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            return answer.status_code
    return httpx.codes.SERVICE_UNAVAILABLE


async def _visits(origin: str, paths: list[str]) -> Counter[int]:
    limits = httpx.Limits(max_connections=TABS)
    async with httpx.AsyncClient(base_url=origin, limits=limits, timeout=60) as client:
        return Counter(await asyncio.gather(*(_visit(client, path) for path in paths)))


@pytest.mark.long
def test_fifty_pages_at_one_moment_use_at_most_four_connections_to_a_site(new_site, visit):
    engine = new_site("paris")
    visitor = visit({"paris": engine})
    counted = Counted(engine)
    paths = [PAGES[number % 2 * 2 + 1] for number in range(TABS)]
    assert asyncio.run(_visits(visitor.origin, paths)) == {200: TABS}
    assert 1 < counted.most <= 4


LOCKS = "SELECT locktype, mode FROM pg_locks WHERE pid = pg_backend_pid()"


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_no_page_takes_a_lock_but_those_of_every_select(new_site, visit):
    visitor = visit({"paris": new_site("paris")})
    (watch,) = visitor.application.state.console.watches
    found: list[tuple[str, str]] = []

    def note(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        found.extend(driver.execute(LOCKS).fetchall())

    event.listen(watch.reading, "commit", note)
    event.listen(watch.reading, "rollback", note)
    for path in PAGES:
        visitor.client.get(path)
    watch.read()
    assert set(found) == {("relation", "AccessShareLock"), ("virtualxid", "ExclusiveLock")}


class Silent:
    """An engine whose connections never come until the end of the test; `asked` has the threads that wait."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.asked: set[str] = set()
        self.engine = create_engine("sqlite://", creator=self._connect)

    def _connect(self):
        self.asked.add(threading.current_thread().name)
        assert self.let.wait(120)
        raise sqlite3.OperationalError("too late")


@pytest.fixture
def silent():
    made = [Silent(), Silent()]
    yield made
    for each in made:
        each.let.set()


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_actions_of_two_silent_sites_are_awaited_at_the_same_time(site, silent, visit, monkeypatch):
    first, second = silent
    # Otherwise the second site would be asked, too, once the page has given the first one up.
    monkeypatch.setitem(PageThreads.__init__.__kwdefaults__, "seconds", 600.0)
    engines = {"lima": first.engine, "oslo": second.engine, "paris": site}
    visitor = visit(engines, ready=False)
    with ThreadPoolExecutor(1) as threads:
        page = threads.submit(visitor.get, "/actions")
        eventually(lambda: "console-lima_0" in first.asked and "console-oslo_0" in second.asked)
        assert "LRQ_Send_LogEntries" in visitor.get("/entries?site=paris"), "another page meanwhile"
        for each in silent:
            each.let.set()
        text = page.result(30)
    assert text.count("too late") >= 2


@pytest.mark.parametrize(
    ("took", "is_watched", "pause"),
    [
        (0.001, True, WATCHED),
        (0.001, False, UNWATCHED),
        (0.2, True, 0.2 / SHARE),
        (0.2, False, UNWATCHED),
        (30.0, True, 20.0),
    ],
)
def test_a_site_that_is_read_slowly_is_read_less_often(took: float, is_watched: bool, pause: float):
    assert pause_after(took, is_watched=is_watched) == pytest.approx(pause)


class Visited:
    """A clock on which a page of the site is loaded every second."""

    def __init__(self) -> None:
        self.at = 100.0
        self.watch: Repeated

    def now_us(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.at

    def wait(self, event: threading.Event, timeout: float) -> bool:
        self.at += min(timeout, 1.0)
        self.watch.attend()
        return event.is_set()


def test_a_page_hastens_no_reading_of_a_slow_site():
    clock = Visited()
    clock.watch = Repeated("a site", lambda: None, lambda: None, clock)
    clock.watch._rest(clock.at, 0.5)
    assert clock.at >= 100.0 + 0.5 / SHARE
    began = clock.at
    clock.watch._rest(clock.at, 0.001)
    assert clock.at == pytest.approx(began + WATCHED)
    clock.watch.refresh()
    clock.watch._rest(clock.at, 0.5)
    assert clock.at == pytest.approx(began + WATCHED), "after an action the site is read at once"


def test_a_reading_of_the_console_shares_the_pool_of_the_engine():
    engine = create_engine("sqlite://")
    assert reader(engine).pool is engine.pool
