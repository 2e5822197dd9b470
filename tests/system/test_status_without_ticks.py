"""The status of a site tells that a server can take no tick, once that lasts."""

import pytest
from sqlalchemy import Engine, text

from lr_server import lasting_trouble
from lrq.cli.health import troubles
from tests.system.world import World, in_log_sync
from tests.waiting import eventually

SQLITE = "CREATE TRIGGER refuse BEFORE INSERT ON lrq_ticks BEGIN INSERT INTO no_room_for_ticks VALUES (1); END"
POSTGRESQL = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no_room_for_ticks'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON lrq_ticks FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def refuse_ticks(site: Engine) -> None:
    with site.begin() as connection:
        connection.exec_driver_sql(SQLITE if site.dialect.name == "sqlite" else POSTGRESQL)


def allow_ticks(site: Engine) -> None:
    with site.begin() as connection:
        connection.execute(text(f"DROP TRIGGER refuse {'' if site.dialect.name == 'sqlite' else 'ON lrq_ticks'}"))


def test_the_status_tells_that_no_tick_can_be_taken(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lasting_trouble, "LASTS", 0.2)
    tokyo = world.subscribe("tokyo")
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", clients=["policy"])
    in_log_sync(paris, "tokyo")
    refuse_ticks(world.site("paris"))
    world.transmit("paris", b"waits", to=["tokyo"])
    beginning = "no entry leaves this site, because no tick can be taken: "
    told = eventually(lambda: [each for each in troubles(paris.site_status()) if each.startswith(beginning)])
    assert "no_room_for_ticks" in told[0]
    allow_ticks(world.site("paris"))
    eventually(lambda: tokyo.log("paris") == [b"waits"])
    eventually(lambda: not troubles(paris.site_status()))
