"""A source whose own database fails says so, does not blame the sink, and recovers by itself."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lr_server import LogReplicationServer
from tests.system.world import Messages, World, in_log_sync, sessions_of
from tests.waiting import eventually


@contextmanager
def without(world: World, site: str, table: str) -> Iterator[None]:
    """Hide one table of a site."""
    world.execute(site, f"ALTER TABLE {table} RENAME TO hidden")
    yield
    world.execute(site, f"ALTER TABLE hidden RENAME TO {table}")


def names_its_own_database(server: LogReplicationServer, table: str) -> bool:
    session = sessions_of(server).get("tokyo", {})
    told = session.get("reason", "")
    return session.get("state") == "backing off" and told.startswith("this site: ") and table in told


def test_a_negotiation_that_cannot_read_the_source_names_the_source(world: World) -> None:
    world.begun("paris", "tokyo")
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, clients=["policy"], initial_sync="log")
    eventually(lambda: sessions_of(paris).get("tokyo", {}).get("state") == "backing off")
    recorder = world.subscribe("tokyo")
    with without(world, "paris", "lrq_branches"):
        world.server("tokyo", listen=[])
        eventually(lambda: names_its_own_database(paris, "lrq_branches"))
    in_log_sync(paris, "tokyo")
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"after"])


@pytest.mark.parametrize("transport", ["local", "tcp"])
def test_a_snapshot_that_cannot_be_read_names_the_source(world: World, transport: str) -> None:
    recorder = world.subscribe("tokyo")
    world.provide("paris", Messages(lambda _: [b"a", b"b"]))
    world.request_snapshots("paris", "tokyo")
    eventually(lambda: world.execute("paris", "SELECT state FROM lrq_snapshots") == [("ready",)])
    tokyo = world.server("tokyo")
    peer = "local:tokyo" if transport == "local" else tokyo.endpoints[0]
    with without(world, "paris", "lrq_snapshot_blocks"):
        paris = world.server("paris", listen=[], peers={"tokyo": peer})
        eventually(lambda: names_its_own_database(paris, "lrq_snapshot_blocks"))
    eventually(lambda: recorder.kinds("paris") == ["start 1", "snapshot 2", "complete 1"])
