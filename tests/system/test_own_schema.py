"""Sites whose tables stand in a schema of their own do all their work there."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy import Engine

import queues
from discovery.status import read_status
from tests.system.world import Messages, World, in_log_sync
from tests.waiting import eventually


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def world(new_database: Callable[[], str]) -> Iterator[World]:
    """Give a world whose sites have their tables in the schema `lrq`."""
    with ExitStack() as stack:

        def new_site(name: str) -> Engine:
            engine = queues.create_engine(new_database(), schema="lrq")
            stack.callback(engine.dispose)
            queues.initialize(engine, site_id=name)
            return engine

        world = World(new_site, stack)
        yield world
        print(world.report())


@pytest.mark.long
def test_entries_and_snapshots_replicate_between_sites_with_schemas_of_their_own(world: World):
    short = {"trim_seconds": 0.2, "segment_seconds": 0.2}
    paris = world.link("paris", "tokyo", initial_sync="log", **short)
    world.provide("paris", Messages(lambda _: [b"state"]))
    tokyo = world.subscribe("tokyo")
    world.transmit("paris", b"1", b"2", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"1", b"2"])
    world.request_snapshots("paris", "tokyo")
    eventually(lambda: tokyo.snapshot("paris") == [b"state"])
    in_log_sync(paris, "tokyo")
    trimmed = paris.status()["log"]["trimmed_seq"]
    world.transmit("paris", b"3", to=["tokyo"])
    eventually(lambda: tokyo.log("paris") == [b"1", b"2", b"3"])
    eventually(lambda: paris.status()["log"]["trimmed_seq"] > trimmed)
    assert tokyo.errors == []
    assert read_status(world.site("paris")).site == "paris"
    elsewhere = "SELECT relname FROM pg_class WHERE relname LIKE 'lrq%' AND relnamespace <> 'lrq'::regnamespace"
    assert world.execute("paris", elsewhere) == world.execute("tokyo", elsewhere) == []
