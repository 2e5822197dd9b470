"""A sink whose database takes no entry says so in the status of its site."""

import pytest
from sqlalchemy import text

from discovery.status import read_status
from lr_server import LogReplicationServer
from lrq.cli.health import troubles
from queues.database import grants
from queues.database.grantees import Grantee
from tests.system import roles
from tests.system.world import World
from tests.waiting import eventually

REFUSING = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'closed for the audit'; END $$"
TRIGGER = "CREATE TRIGGER audit AFTER INSERT ON lrq_receive_blocks FOR EACH ROW EXECUTE FUNCTION refuse()"
NOT_STORED = "nothing of policy from paris can be stored: "
LACKS = "the database role lacks a right "


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


def shown(world: World) -> list[str]:
    """Return the troubles that `lrq status` shows at Tokyo."""
    return troubles(read_status(world.site("tokyo")))


@pytest.mark.long
def test_a_server_that_may_not_insert_received_entries_any_more_is_shown_until_it_may(world: World):
    owner = world.site("tokyo")
    with roles.new_role(owner) as role:
        grants.grant(owner, role, Grantee.SERVER)
        url = owner.url.set(username=role, password="secret").render_as_string(hide_password=False)
        with LogReplicationServer(world.settings("tokyo", database_url=url, listen=[])):
            world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log", retry_cap_seconds=0.1)
            heard = world.subscribe("tokyo")
            world.transmit("paris", b"1", to=["tokyo"])
            eventually(lambda: heard.log("paris") == [b"1"])
            with owner.begin() as connection:
                connection.execute(text(f"REVOKE INSERT ON lrq_receive_blocks FROM {roles.quote(role)}"))
            world.transmit("paris", b"2", to=["tokyo"])
            eventually(lambda: [words.partition("(")[0] for words in shown(world)] == [f"{NOT_STORED}{LACKS}"])
            grants.grant(owner, role, Grantee.SERVER)
            eventually(lambda: heard.log("paris") == [b"1", b"2"])
            eventually(lambda: not shown(world))


@pytest.mark.nightly
@pytest.mark.long
def test_a_trigger_of_the_administrator_that_refuses_received_entries_is_shown_until_it_is_dropped(world: World):
    tokyo = world.server("tokyo", listen=[])
    world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log", retry_cap_seconds=0.1)
    heard = world.subscribe("tokyo")
    world.transmit("paris", b"1", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"1"])
    world.execute("tokyo", REFUSING)
    world.execute("tokyo", TRIGGER)
    world.transmit("paris", b"2", to=["tokyo"])
    words = f"{NOT_STORED}the database of the sink does not take it: closed for the audit"
    eventually(lambda: shown(world) == [words])
    assert tokyo.health_troubles() == {}, "the server itself works, so a balancer keeps it"
    world.execute("tokyo", "DROP TRIGGER audit ON lrq_receive_blocks")
    eventually(lambda: heard.log("paris") == [b"1", b"2"])
    eventually(lambda: not shown(world))
