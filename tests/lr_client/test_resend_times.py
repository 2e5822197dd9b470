"""A range of time means the times of commits, although the server may take their ticks much later."""

from contextlib import suppress
from datetime import UTC, datetime
from threading import Barrier, BrokenBarrierError, Thread

import pytest
from sqlalchemy import Engine, event, update

from lr_client import resend_entries
from queues.clock import now_us
from queues.database import leases
from queues.database.leases import Lease
from queues.database.tables.ticks import ticks
from queues.database.transactions import writing
from queues.errors import StoreUnavailableError, UsageError
from queues.send_log import resends
from queues.send_log.opening import open_log
from queues.send_log.port import Retention, TickLimits
from tests.lrq.cli.source import SourceSite
from tests.waiting import eventually

#: A transaction above these limits is a large tick.
SMALL = TickLimits(rows=2)


@pytest.fixture
def source(site: Engine) -> SourceSite:
    """Give a source with a session to tokyo."""
    made = SourceSite(site)
    made.session("tokyo")
    return made


def moment() -> datetime:
    """Return a time that is later than all commits before the call, and earlier than all after it."""
    found = now_us() + 1_000
    eventually(lambda: now_us() > found + 1_000)
    return datetime.fromtimestamp(found / 1e6, tz=UTC)


def send(source: SourceSite, *texts: str) -> None:
    """Commit a transaction, and take no tick."""
    source.transmit(*(text.encode() for text in texts), to=["tokyo"])


def leading(source: SourceSite) -> Lease:
    """Return a new lease of the source's server."""
    lease = leases.acquire(source.engine, "server", "test", ttl=60)
    assert lease is not None
    return lease


def again(source: SourceSite, after: int) -> list[str]:
    """Take ticks, and return the payloads after a number."""
    source.tick()
    log, found = open_log(source.engine), list[str]()
    while taken := log.ticks_after(after, TickLimits()):
        found += [entry.row.payload.decode() for part in log.read_all(taken, TickLimits()) for entry in part]
        after = taken[-1].end_seq
    return found


def test_entries_whose_ticks_come_after_the_time_belong_to_it(source: SourceSite) -> None:
    send(source, "before")
    source.tick()
    since = moment()
    send(source, "in 1")
    source.tick()
    send(source, "in 2")
    until = moment()
    send(source, "after")
    newest = source.tick()
    resend_entries(source.engine, "policy", "tokyo", since=since, until=until)
    assert again(source, newest) == ["in 1", "in 2"]


def test_entries_before_the_time_do_not_belong_to_it_although_their_tick_does(source: SourceSite) -> None:
    send(source, "before")
    since = moment()
    send(source, "in")
    newest = source.tick()
    resend_entries(source.engine, "policy", "tokyo", since=since, until=moment())
    assert again(source, newest) == ["in"]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_large_transaction_belongs_to_the_time_of_its_commit(source: SourceSite, *, is_late: bool) -> None:
    since = moment()
    texts = [str(number) for number in range(1_500)]
    send(source, *texts)
    if not is_late:
        source.tick(SMALL)
    until = moment()
    send(source, "after")
    newest = source.tick(SMALL)
    resend_entries(source.engine, "policy", "tokyo", since=since, until=until)
    assert again(source, newest) == texts


def test_two_times_that_meet_share_no_entry_and_leave_none_out(source: SourceSite) -> None:
    begin = moment()
    send(source, "1", "2")
    source.transmit(b"another", to=["lima"])
    middle = moment()
    send(source, "3", "4")
    newest = source.tick()
    end = moment()
    resend_entries(source.engine, "policy", "tokyo", since=begin, until=middle)
    resend_entries(source.engine, "policy", "tokyo", since=middle, until=end)
    assert again(source, newest) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_clock_of_the_server_does_not_matter(source: SourceSite, hours: int) -> None:
    send(source, "before")
    source.tick()
    since = moment()
    for number in range(3):
        send(source, f"in {number}")
        source.tick()
    until = moment()
    for number in range(3):
        send(source, f"after {number}")
        newest = source.tick()
    # The times of commits come from the database, those of ticks from the server.
    with writing(source.engine) as connection:
        connection.execute(update(ticks).values(created_us=ticks.c.created_us + hours * 3_600_000_000))
    resend_entries(source.engine, "policy", "tokyo", since=since, until=until)
    assert again(source, newest) == ["in 0", "in 1", "in 2"]


def test_a_time_that_may_have_trimmed_entries_is_refused(source: SourceSite) -> None:
    early = moment()
    send(source, "trimmed")
    trimmed = source.tick()
    log = open_log(source.engine)
    assert log.rotate(leading(source), 1, 0.0)
    since = moment()
    send(source, "in")
    newest = source.tick()
    until = moment()
    source.session("tokyo", trimmed)
    assert log.trim(leading(source), Retention()).seq == trimmed
    with pytest.raises(UsageError, match="perhaps of that time"):
        resend_entries(source.engine, "policy", "tokyo", since=early, until=until)
    resend_entries(source.engine, "policy", "tokyo", since=since, until=until)
    assert again(source, newest) == ["in"]
    with writing(source.engine) as connection:
        connection.execute(update(ticks).values(created_us=1))
    with pytest.raises(UsageError, match="perhaps of that time"):
        resend_entries(source.engine, "policy", "tokyo", since=since, until=until)


def test_a_time_without_commits_is_refused(source: SourceSite) -> None:
    send(source, "before")
    since, until = moment(), moment()
    send(source, "after")
    source.tick()
    with pytest.raises(UsageError, match="no entries in that time"):
        resend_entries(source.engine, "policy", "tokyo", since=since, until=until)


def test_one_of_two_orders_at_once_is_refused(source: SourceSite, monkeypatch: pytest.MonkeyPatch) -> None:
    send(source, "1")
    newest = source.tick()
    both, begin, refused = Barrier(2), resends.begin, list[Exception]()

    def begin_together(*order: object) -> object:
        # SQLite lets only one of them come so far.
        with suppress(BrokenBarrierError):
            both.wait(1)
        return begin(*order)  # type: ignore[arg-type]

    monkeypatch.setattr(resends, "begin", begin_together)

    def order() -> None:
        try:
            resend_entries(source.engine, "policy", "tokyo", start=1, end=1)
        except (UsageError, StoreUnavailableError) as error:
            refused.append(error)

    threads = [Thread(target=order) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(again(source, newest)) + len(refused) == 2
    assert refused or source.engine.dialect.name == "sqlite"


def test_a_range_inside_a_large_transaction_reads_no_more_of_it(source: SourceSite) -> None:
    send(source, *(str(number) for number in range(20_000)))
    source.tick(SMALL)
    reads = list[str]()

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "OFFSET" in statement and "lrq_log_entries" in statement:
            reads.append(statement)

    event.listen(source.engine, "before_cursor_execute", note)
    assert resend_entries(source.engine, "policy", "tokyo", start=1, end=1).entries == 1
    assert len(reads) <= 2
