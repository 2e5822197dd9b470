"""The console reads a site within limits, and a site without an answer blocks no other."""

import threading

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from discovery.status import read_status
from lrq.console.reading import PageThreads, reader
from lrq.console.watch import SiteWatch
from queues.clock import SYSTEM_CLOCK
from queues.database.transactions import reading
from queues.errors import StoreUnavailableError
from tests.waiting import eventually


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_transactions_of_the_console_cannot_write_and_end_in_time(site):
    with reader(site).connect() as connection:
        assert connection.execute(text("SHOW transaction_read_only")).scalar() == "on"
        assert connection.execute(text("SHOW statement_timeout")).scalar() == "5s"
        with pytest.raises(DBAPIError, match="read-only transaction"):
            connection.execute(text("DELETE FROM lrq_leases"))
    with site.connect() as connection:
        assert connection.execute(text("SHOW transaction_read_only")).scalar() == "off", "the application's own may"
        assert connection.execute(text("SHOW statement_timeout")).scalar() == "0"


def test_the_status_is_read_by_a_limited_reader(site):
    assert read_status(reader(site)).site == "paris"


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_reading_takes_no_lock_that_keeps_a_writer_waiting(site):
    with reading(reader(site), snapshot=True) as connection:
        connection.execute(text("SELECT count(*) FROM lrq_sessions"))
        modes = connection.execute(text("SELECT DISTINCT mode FROM pg_locks WHERE pid = pg_backend_pid()")).scalars()
        assert set(modes) <= {"AccessShareLock", "ExclusiveLock"}
        own = "SELECT locktype FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'ExclusiveLock'"
        assert set(connection.execute(text(own)).scalars()) <= {"virtualxid"}


class Stuck:
    """An engine whose connections come only when the test ends."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.engine = create_engine("sqlite://", creator=self._connect)

    def _connect(self):
        assert self.let.wait(60)
        raise OSError("too late")


@pytest.fixture
def stuck():
    made = Stuck()
    yield made
    made.let.set()


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_site_without_an_answer_shows_as_such_and_blocks_no_other(site, stuck, visit):
    visitor = visit({"lima": stuck.engine, "paris": site}, ready=False)
    eventually(lambda: "no server works" in visitor.get("/"))
    assert "is being read for the first time" in visitor.get("/")
    assert "LRQ_Send_LogEntries" in visitor.get("/entries?site=paris")
    stuck.let.set()


def test_a_reading_that_is_overdue_is_a_trouble(stuck):
    class Late:
        def __init__(self) -> None:
            self.at = 100.0

        def now_us(self) -> int:
            return 0

        def monotonic(self) -> float:
            return self.at

        def wait(self, event: threading.Event, timeout: float) -> bool:
            return event.wait(timeout)

    clock = Late()
    watch = SiteWatch("lima", stuck.engine, clock=clock)
    watch.start()
    eventually(lambda: watch._repeated._began is not None)
    assert watch.look().trouble == ""
    clock.at += 9
    assert watch.look().trouble == "the database has not answered for 9 s"
    watch.stop()


async def _given_up(threads: PageThreads, let: threading.Event) -> str:
    with pytest.raises(StoreUnavailableError) as raised:
        await threads.call(lambda: let.wait(60))
    return str(raised.value)


def test_a_page_gives_up_a_site_that_does_not_answer():
    import asyncio

    let = threading.Event()
    threads = PageThreads("lima", seconds=0.05)
    began = SYSTEM_CLOCK.monotonic()
    try:
        words = asyncio.run(_given_up(threads, let))
    finally:
        let.set()
        threads.close()
    assert words.startswith("lima gave no answer within 0.05 s")
    assert SYSTEM_CLOCK.monotonic() - began < 10


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_one_thread_reads_a_site_for_all_visitors(site, visit):
    visitor = visit({"paris": site})
    for _ in range(20):
        visitor.get("/")
    names = [thread.name for thread in threading.enumerate() if thread.name == "console-watch-paris"]
    assert len(names) == 1


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_site_that_fails_keeps_its_last_status_beside_the_trouble(site):
    watch = SiteWatch("paris", site)
    watch.read()
    with site.begin() as connection:
        connection.execute(text("ALTER TABLE lrq_site RENAME TO gone"))
    watch.read()
    view = watch.look()
    assert view.status is not None
    assert "lrq init" in view.trouble
    watch.stop()
