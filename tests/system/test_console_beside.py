"""A page of the console that reads for long holds up neither the application nor the servers of the site."""

from sqlalchemy import Engine, text

from discovery.status import read_status
from lrq.console.reading import reader
from queues.database.transactions import reading
from tests.system.world import World
from tests.waiting import eventually


def held_up(engine: Engine) -> list[int]:
    """Return the backends that wait for another one."""
    blocked = text("SELECT pid FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0")
    with engine.connect() as connection:
        return list(connection.execute(blocked).scalars())


def test_sites_work_on_while_a_reading_of_the_console_is_open_at_each(world: World, dialect: str) -> None:
    tokyo = world.subscribe("tokyo")
    world.link("paris", "tokyo", initial_sync="log", segment_seconds=0.05, trim_seconds=0.05)
    world.transmit("paris", b"before", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"before"])
    engines = [world.site("paris"), world.site("tokyo")]
    with reading(reader(engines[0]), snapshot=True) as paris, reading(reader(engines[1]), snapshot=True) as sink:
        for connection in (paris, sink):
            connection.execute(text("SELECT count(*) FROM lrq_sessions, lrq_leases, lrq_receive_marks")).scalar()
        for number in range(20):
            world.transmit("paris", b"%d" % number, to=["tokyo"])
        eventually(lambda: len(tokyo.log("paris")) == 21)
        for engine in engines if dialect == "postgresql" else []:
            # The servers may wait for each other for a moment; a wait for the open reading would not end.
            eventually(lambda engine=engine: not held_up(engine))  # type: ignore[misc]
        assert all(not each.health_troubles() for each in world.servers)
    assert read_status(engines[0]).log.waiting == 0
