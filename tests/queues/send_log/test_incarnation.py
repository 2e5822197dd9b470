"""A database that was restored elsewhere: its transaction ids begin anew."""

import pytest
from sqlalchemy import Engine, text, update

from lr_server.source.incarnation import adopt, adopted_branch
from queues.database import servers
from queues.database.leases import Lease
from queues.database.tables.log import log_commits, log_entries
from queues.database.tables.site import branches
from queues.database.tables.ticks import ticks
from queues.errors import OtherIncarnationError, TrimmedError
from queues.positions import PgSnapshot, Visibility
from queues.send_log import unordered
from queues.send_log.port import TickLimits
from tests.leading import lead
from tests.queues.reading import Reader
from tests.queues.send_log.transmitting import TOKYO, transmit


def branch_that_begins_again(site: Engine, lease: Lease) -> str:
    """Transmit a new entry, which alone must be in the next tick; return the branch of that tick."""
    transmit(site, b"new")
    successor = Reader(site, lease)
    last = successor.log.bounds().newest
    assert last is not None
    group = successor.log.take_tick(lease, last)
    assert group is not None
    assert [row.payload for row in group.rows or ()] == [b"new"]
    with pytest.raises(TrimmedError):
        successor.log.ticks_after(1, TickLimits())
    return group.tick.branch


def test_the_branch_stays_while_the_incarnation_is_the_same(site: Engine, lease: Lease, reader: Reader) -> None:
    transmit(site, b"1")
    before = adopt(site, lease)
    assert [row.payload for row in reader.drain()] == [b"1"]
    assert reader.groups[0].tick.branch == before == adopt(site, lease)


def test_a_restored_copy_begins_a_branch_after_all_restored_entries(
    site: Engine, lease: Lease, reader: Reader, dialect: str
) -> None:
    if dialect == "sqlite":
        pytest.skip("nothing in a SQLite file tells a copy from its original; there the headers do")
    transmit(site, b"ticked")
    reader.drain()
    transmit(site, b"restored, not ticked")
    with site.begin() as connection:
        connection.execute(update(log_entries).values(xid=log_entries.c.xid + 1_000_000))
        connection.execute(update(log_commits).values(xid=log_commits.c.xid + 1_000_000))
        connection.execute(update(branches).values(incarnation="another system/00000001/5"))
    branch = adopt(site, lease)
    assert branch_that_begins_again(site, lease) == branch != reader.groups[0].tick.branch
    with site.connect() as connection:
        assert connection.execute(text("SELECT branch FROM lrq_site")).scalar_one() == branch


def test_a_promoted_replica_continues_the_log_on_a_new_branch(
    site: Engine, lease: Lease, reader: Reader, dialect: str
) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has no timelines")
    transmit(site, b"1")
    reader.drain()
    with site.begin() as connection:
        identity = connection.execute(text("SELECT incarnation FROM lrq_branches")).scalar_one()
        system, timeline, database = identity.split("/")
        connection.execute(update(branches).values(incarnation=f"{system}/{int(timeline, 16) - 1:08x}/{database}"))
    assert adopted_branch(site) is None
    before = lead(site, 0, 1, 2, count=3)
    branch = adopt(site, lease)
    assert adopted_branch(site) == branch
    after = servers.look(site).ranges
    assert all(row.server == "test" for row in after)
    assert min(row.generation for row in after) > max(led.generation for led in before)
    transmit(site, b"2")
    (row,) = reader.drain()
    assert row.payload == b"2"
    assert reader.groups[-1].tick.branch == branch != reader.groups[0].tick.branch
    assert [len(rows) for rows in reader.log.read(TOKYO, [group.tick for group in reader.groups])] == [1, 1]


def test_a_publication_of_all_tables_stops_neither_a_restored_database_nor_unordered_entries(
    site: Engine, lease: Lease, reader: Reader, dialect: str
) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has no publications")
    transmit(site, b"restored")
    reader.drain()
    with site.begin() as connection:
        connection.execute(update(branches).values(incarnation="another system/00000001/5"))
        connection.execute(text("CREATE PUBLICATION everything FOR ALL TABLES"))
    adopt(site, lease)
    assert unordered.send(site) == 0
    assert unordered.drop(site) == 0


@pytest.mark.parametrize("is_first", [True, False], ids=["first tick", "later tick"])
def test_no_tick_is_taken_in_an_incarnation_that_no_server_has_adopted(
    site: Engine, lease: Lease, reader: Reader, dialect: str, is_first: bool
) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has no timelines")
    if not is_first:
        transmit(site, b"1")
        reader.drain()
    with site.begin() as connection:
        identity = connection.execute(text("SELECT incarnation FROM lrq_branches")).scalar_one()
        system, timeline, database = identity.split("/")
        connection.execute(update(branches).values(incarnation=f"{system}/{int(timeline, 16) - 1:08x}/{database}"))
    transmit(site, b"2")
    site.dispose()  # a promotion ends all connections to the server that has died
    log = Reader(site, lease).log
    last = log.bounds().newest
    for _ in range(2):
        with pytest.raises(OtherIncarnationError, match="promoted, restored or copied"):
            log.take_tick(lease, last)
    adopt(site, lease)
    group = log.take_tick(lease, last)
    assert group is not None
    assert [row.payload for row in group.rows or ()] == [b"2"]


def test_the_log_begins_again_after_the_transaction_ids_went_back(
    site: Engine, lease: Lease, reader: Reader, dialect: str
) -> None:
    if dialect == "sqlite":
        pytest.skip("SQLite has no transaction ids")
    transmit(site, b"ticked")
    reader.drain()
    (before,) = reader.groups
    # `pg_resetwal -e` changes the epoch only: the rows stay, and the ids of the log are ones of the future.
    ahead = 5 * 2**32
    mark = str(Visibility(window=PgSnapshot(ahead, ahead, frozenset())))
    with site.begin() as connection:
        connection.execute(update(ticks).values(mark=mark))
        connection.execute(update(log_entries).values(xid=log_entries.c.xid + ahead))
        connection.execute(update(log_commits).values(xid=log_commits.c.xid + ahead))
    site.dispose()  # the program needs a stopped cluster, so all connections have ended
    last = reader.log.bounds().newest
    assert last is not None
    with pytest.raises(OtherIncarnationError):
        Reader(site, lease).log.take_tick(lease, last)
    assert adopt(site, lease) != before.tick.branch
    assert branch_that_begins_again(site, lease) == adopt(site, lease)
