"""Row level security on lrq's tables loses no entry: each part says that rows are hidden, and goes on afterwards."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from sqlalchemy import Engine

from lr_client import subscribe
from lr_server import LogReplicationServer
from queues.database import grants
from queues.database.grantees import Grantee
from tests.system import roles
from tests.system.world import Recorder, World
from tests.waiting import eventually

TOLD = "row level security hides"


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


@contextmanager
def hidden(world: World, site: str, table: str) -> Iterator[None]:
    """Hide all rows of a table from each role that does not bypass row level security."""
    world.execute(site, f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    yield
    world.execute(site, f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")


@pytest.mark.parametrize("table", ["lrq_receive_blocks", "lrq_receive_headers"])
@pytest.mark.parametrize("begins_before", [True, False], ids=["while it works", "before it starts"])
def test_a_subscriber_passes_over_no_hidden_entry(world: World, table: str, begins_before: bool):
    world.link("paris", "tokyo", initial_sync="log")
    tokyo, heard = world.site("tokyo"), Recorder()
    with roles.new_role(tokyo) as role, roles.engine_of(tokyo, role) as engine:
        grants.grant(tokyo, role, Grantee.SUBSCRIBER)
        first = subscribe(engine, heard, poll_interval=0.05)
        with closing(first):
            world.transmit("paris", b"0", to=["tokyo"])
            eventually(lambda: heard.log("paris") == [b"0"])
            if begins_before:
                _refuses_then_goes_on(world, heard, table)
        if not begins_before:
            token = world.transmit("paris", b"1", b"2", to=["tokyo"])
            world.client.wait_replicated(world.site("paris"), token, ["tokyo"], timeout=30)
            with hidden(world, "tokyo", table):
                later = subscribe(engine, heard, poll_interval=0.05)
                with closing(later):
                    eventually(lambda: any(TOLD in str(error) for error in heard.errors))
            with closing(subscribe(engine, heard, poll_interval=0.05)):
                eventually(lambda: heard.log("paris") == [b"0", b"1", b"2"])


def _refuses_then_goes_on(world: World, heard: Recorder, table: str) -> None:
    with hidden(world, "tokyo", table):
        world.transmit("paris", b"1", b"2", to=["tokyo"])
        eventually(lambda: any(TOLD in str(error) for error in heard.errors))
    eventually(lambda: heard.log("paris") == [b"0", b"1", b"2"])


@pytest.mark.parametrize("table", ["lrq_log_entries", "lrq_ticks_0", "lrq_log_commits", "lrq_log_head"])
def test_a_server_says_that_rows_of_the_log_are_hidden(world: World, table: str):
    world.server("tokyo", listen=[])
    heard, paris = world.subscribe("tokyo"), world.site("paris")
    with roles.new_role(paris) as role:
        grants.grant(paris, role, Grantee.SERVER)
        with _server_as(world, paris, role) as server:
            world.transmit("paris", b"0", to=["tokyo"])
            eventually(lambda: heard.log("paris") == [b"0"])
            with hidden(world, "paris", table):
                world.transmit("paris", b"1", to=["tokyo"])
                eventually(lambda: any(TOLD in each for each in server.health_troubles().values()))
            world.transmit("paris", b"2", to=["tokyo"])
            eventually(lambda: heard.log("paris") == [b"0", b"1", b"2"])


def _server_as(world: World, site: Engine, role: str) -> LogReplicationServer:
    url = site.url.set(username=role, password="secret").render_as_string(hide_password=False)
    peers = {"tokyo": "local:tokyo"}
    return LogReplicationServer(world.settings("paris", database_url=url, peers=peers, listen=[], initial_sync="log"))
