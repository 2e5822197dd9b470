"""The sequencer on PostgreSQL: notified of each transaction under a light load, and of none under a heavy one."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from lr_server import LogReplicationServer
from queues.clock import SystemClock
from tests.system.world import World
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)]

_TRANSMIT = "SELECT lrq_transmit('policy', CAST(:payload AS bytea), ARRAY['tokyo'])"
_LOCKED = (
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 1819439474 AND mode = 'ExclusiveLock' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_TRANSACTIONS = 20


@pytest.fixture
def world(new_site: Any) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(new_site, stack)


def newest(server: LogReplicationServer) -> int:
    tick = server._source.feed.newest  # type: ignore[union-attr]
    return 0 if tick is None else tick.end_seq


def looks(server: LogReplicationServer) -> int:
    return server._source._ticks._site_work.sequencer.looks  # type: ignore[union-attr]


def is_notified(world: World) -> bool:
    return bool(world.execute("paris", _LOCKED))


class StillClock(SystemClock):
    """A clock on which ticks take no time, so that the load is light on any machine."""

    def monotonic(self) -> float:
        return 0.0


def test_rare_transactions_notify_the_server_which_looks_once_for_each(world: World):
    paris = world.server("paris", listen=[], clock=StillClock())
    world.execute("paris", _TRANSMIT, payload="x")
    eventually(lambda: newest(paris) == 1)
    eventually(lambda: is_notified(world))
    before = looks(paris)
    for number in range(_TRANSACTIONS):
        world.execute("paris", _TRANSMIT, payload="x")
        eventually(lambda wanted=number + 2: newest(paris) == wanted)  # type: ignore[misc]
        assert is_notified(world)
    # The server looks once a second besides; polling would be dozens of looks for each transaction.
    assert looks(paris) - before < 5 * _TRANSACTIONS


def test_a_heavy_load_ends_the_notifications_until_the_load_is_over(world: World):
    paris = world.server("paris", listen=[])
    eventually(lambda: is_notified(world))
    many = "SELECT count(lrq_transmit('policy', 'x', ARRAY['tokyo'])) FROM generate_series(1, 3000)"

    def ends() -> bool:
        world.execute("paris", many)
        return not is_notified(world)

    eventually(ends)
    eventually(lambda: is_notified(world))
    before = newest(paris)
    world.execute("paris", _TRANSMIT, payload="x")
    eventually(lambda: newest(paris) > before)
