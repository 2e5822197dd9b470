"""The status of a site tells that a server can take no tick or check no session, once that lasts."""

import pytest
from sqlalchemy import Engine, text

from lr_server import lasting_trouble
from lrq.cli.health import troubles
from tests.system.world import World, in_log_sync
from tests.waiting import eventually

SQLITE = "CREATE TRIGGER refuse BEFORE INSERT ON {} BEGIN INSERT INTO no_room_for_rows VALUES (1); END"
POSTGRESQL = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no_room_for_rows'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def refuse(site: Engine, table: str) -> None:
    with site.begin() as connection:
        connection.exec_driver_sql((SQLITE if site.dialect.name == "sqlite" else POSTGRESQL).format(table))


def allow(site: Engine, table: str) -> None:
    with site.begin() as connection:
        connection.execute(text(f"DROP TRIGGER refuse {'' if site.dialect.name == 'sqlite' else f'ON {table}'}"))


@pytest.mark.nightly
def test_the_status_tells_that_no_tick_can_be_taken(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lasting_trouble, "LASTS", 0.2)
    tokyo = world.subscribe("tokyo")
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", clients=["policy"])
    in_log_sync(paris, "tokyo")
    refuse(world.site("paris"), "lrq_ticks")
    world.transmit("paris", b"waits", to=["tokyo"])
    beginning = "no entry leaves this site, because no tick can be taken: "
    told = eventually(lambda: [each for each in troubles(paris.site_status()) if each.startswith(beginning)])
    assert "no_room_for_rows" in told[0]
    allow(world.site("paris"), "lrq_ticks")
    eventually(lambda: tokyo.log("paris") == [b"waits"])
    eventually(lambda: not troubles(paris.site_status()))


def test_the_status_tells_that_no_session_can_begin(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lasting_trouble, "LASTS", 0.2)
    tokyo = world.subscribe("tokyo")
    refuse(world.site("paris"), "lrq_sessions")
    paris = world.link("paris", "tokyo", initial_sync="log", clients=["policy"])
    world.transmit("paris", b"waits", to=["tokyo"])
    beginning = "no session begins, because the sessions cannot be checked: "
    told = eventually(lambda: [each for each in troubles(paris.site_status()) if each.startswith(beginning)])
    assert "no_room_for_rows" in told[0]
    allow(world.site("paris"), "lrq_sessions")
    eventually(lambda: tokyo.log("paris") == [b"waits"])
    eventually(lambda: not troubles(paris.site_status()))
