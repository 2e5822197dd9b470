"""The upkeep of a quiet site is one look; each kind of work is found and done."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, event, func, insert, select, text

from lr_server.source.clock_jumps import ClockJumps
from lr_server.source.upkeep import Upkeep
from queues.browse.upkeep import DueUpkeep, due_upkeep
from queues.clock import SYSTEM_CLOCK, now_us
from queues.database.tables.consumers import parked_entries
from queues.database.tables.producers import log_staging
from queues.database.tables.snapshots import snapshot_blocks, snapshot_parts, snapshots
from queues.database.transactions import reading, writing
from queues.names import ClientName, SiteId
from queues.send_log import links
from queues.send_log.port import SessionKey
from queues.send_log.staging import Epoch
from queues.states import LinkWish
from tests.lr_client.snapshot.providing import claim, publish, request, write_part
from tests.queues.send_log.test_epochs import stage

KEPT_SECONDS = 100.0
NOTHING = DueUpkeep(snapshots=False, staged=False, parked=False, links=False)


def upkeep(site: Engine) -> None:
    no_jumps = ClockJumps(now_us(), SYSTEM_CLOCK.monotonic())
    Upkeep(site, KEPT_SECONDS, clock=SYSTEM_CLOCK, jumps=no_jumps).run()


def due(site: Engine) -> DueUpkeep:
    with reading(site) as connection:
        return due_upkeep(connection, parked_before_us=now_us() - int(KEPT_SECONDS * 1_000_000))


def execute(site: Engine, statement: str) -> None:
    with writing(site) as connection:
        connection.execute(text(statement))


def superseded_request(site: Engine) -> None:
    request(site, "tokyo")
    request(site, "tokyo")


def old_status(site: Engine) -> None:
    superseded_request(site)
    upkeep(site)
    execute(site, f"UPDATE lrq_snapshots SET updated_us = updated_us - {8 * 86_400}000000")


def rows_of_an_ended_attempt(site: Engine) -> None:
    request(site, "tokyo")
    write_part(site, claim(site), 0, [b"x"])
    execute(site, "UPDATE lrq_snapshots SET state = 'cancelled'")


def part_of_an_ended_snapshot(site: Engine) -> None:
    request(site, "tokyo")
    attempt = claim(site)
    publish(site, attempt, write_part(site, attempt, 0, [b"x"]))
    execute(site, "UPDATE lrq_snapshots SET state = 'applied'")
    execute(site, "DELETE FROM lrq_snapshot_blocks")


def abandoned_part(site: Engine) -> None:
    stage(site, Epoch(ClientName("policy"), "a query", 1), "1", "2")
    execute(site, "UPDATE lrq_log_staging SET updated_us = updated_us - 86401000000")


def parked_entry(site: Engine, seconds: float = KEPT_SECONDS + 1) -> None:
    values = {"queue_id": 1, "kind": "log", "branch": "b", "seq": 1, "transaction_seq": 1, "payload": b""}
    values |= {"committed_us": 0, "error": "", "tries": 1, "parked_us": now_us() - int(seconds * 1_000_000)}
    with writing(site) as connection:
        connection.execute(insert(parked_entries).values(values))


def unfinished_change_of_links(site: Engine) -> None:
    with site.connect() as connection, connection.begin() as transaction:
        links.set_wish(connection, [SessionKey(ClientName("policy"), SiteId("tokyo"))], LinkWish.DRAINING)
        transaction.rollback()


WORK: dict[Callable[[Engine], None], DueUpkeep] = {
    superseded_request: NOTHING._replace(snapshots=True),
    old_status: NOTHING._replace(snapshots=True),
    rows_of_an_ended_attempt: NOTHING._replace(snapshots=True),
    part_of_an_ended_snapshot: NOTHING._replace(snapshots=True),
    abandoned_part: NOTHING._replace(staged=True),
    parked_entry: NOTHING._replace(parked=True),
    unfinished_change_of_links: NOTHING._replace(links=True),
}


@pytest.mark.parametrize("prepare", WORK, ids=lambda prepare: prepare.__name__)
def test_each_kind_of_work_is_found_and_done(site: Engine, prepare: Callable[[Engine], None], dialect: str) -> None:
    if prepare is unfinished_change_of_links and dialect == "sqlite":
        pytest.skip("SQLite has one place of the number, which is rolled back too")
    assert due(site) == NOTHING
    prepare(site)
    assert due(site) == WORK[prepare]
    upkeep(site)
    assert due(site) == NOTHING


def test_work_of_a_later_time_is_not_due_yet(site: Engine) -> None:
    request(site, "tokyo")
    stage(site, Epoch(ClientName("policy"), "a query", 1), "1")
    parked_entry(site, KEPT_SECONDS - 60)
    assert due(site) == NOTHING
    upkeep(site)
    with reading(site) as connection:
        for table in (snapshots, log_staging, parked_entries):
            assert connection.execute(select(func.count()).select_from(table)).scalar_one() == 1


def test_rows_of_a_ready_snapshot_stay_although_the_upkeep_looks_at_them(site: Engine) -> None:
    request(site, "tokyo")
    attempt = claim(site)
    publish(site, attempt, write_part(site, attempt, 0, [b"x"]))
    assert due(site).snapshots
    upkeep(site)
    with reading(site) as connection:
        for table in (snapshot_blocks, snapshot_parts):
            assert connection.execute(select(func.count()).select_from(table)).scalar_one() == 1


def test_the_upkeep_of_a_quiet_site_writes_nothing(site: Engine) -> None:
    begun: list[str] = []
    event.listen(site, "begin", lambda _connection: begun.append("a transaction"))
    upkeep(site)
    assert begun == ["a transaction"]
