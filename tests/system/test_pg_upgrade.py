"""The log of a source goes on after `pg_upgrade` and the statement of docs/backup-postgresql.md, without a snapshot."""

import pytest
from sqlalchemy import Engine, text

import queues
from tests.clusters import cluster, site_of
from tests.house.page_blocks import take
from tests.system.world import World
from tests.waiting import eventually

pytestmark = pytest.mark.postgresql

(_GO_ON,) = take(__name__, "docs/backup-postgresql.md", "sql")
_PEERS = {"tokyo": "local:tokyo"}


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def moved(world: World) -> Engine:
    """Give a site with an entry, whose newest branch belongs to a server with another system identifier."""
    world.transmit("paris", b"1", to=["tokyo"])
    world.execute("paris", "UPDATE lrq_branches SET incarnation = '7' || incarnation")
    return world.engines["paris"]


def go_on(engine: Engine) -> int:
    """Run the statement of the page; return the number of changed rows."""
    with engine.begin() as connection:
        return connection.execute(text(_GO_ON)).rowcount


def send(world: World, payloads: list[bytes]) -> None:
    for payload in payloads:
        world.transmit("paris", payload, to=["tokyo"])


@pytest.mark.long
@pytest.mark.timeout(300)
def test_unsent_entries_arrive_once_and_in_order_after_pg_upgrade(world: World) -> None:
    sent = [b"%d" % number for number in range(60)]
    world.site("tokyo")
    with cluster() as before:
        world.engines["paris"] = site_of(before, "paris")
        world.server("tokyo", listen=[])
        recorder = world.subscribe("tokyo")
        server = world.server("paris", listen=[], peers=_PEERS, initial_sync="log")
        send(world, sent[:20])
        eventually(lambda: recorder.log("paris") == sent[:20])
        server.stop()
        send(world, sent[20:40])
        world.engines["paris"].dispose()
        after = before.upgraded("after")
        try:
            world.engines["paris"] = queues.create_engine(after.url())
            send(world, sent[40:50])
            assert go_on(world.engines["paris"]) == 1
            server = world.server("paris", listen=[], peers=_PEERS, initial_sync="log")
            send(world, sent[50:])
            eventually(lambda: recorder.log("paris") == sent)
            assert recorder.snapshot("paris") == []
            server.stop()
            world.engines["paris"].dispose()
        finally:
            after.stop()


def test_the_statement_changes_a_branch_of_another_server_once(moved: Engine) -> None:
    assert [go_on(moved), go_on(moved)] == [1, 0]


def test_the_statement_changes_nothing_for_copied_entries(moved: Engine) -> None:
    with moved.begin() as connection:
        connection.execute(text("UPDATE lrq_log_entries SET client = client"))
    assert go_on(moved) == 0
