"""A payload is stored once, for any number of destinations."""

import random

import pytest

from tests.system.world import World
from tests.waiting import eventually

MIB = 1024**2
SITES = [f"site{number:02}" for number in range(64)]


def size(world: World) -> int:
    """Return the size of the source's database in bytes (on PostgreSQL without the catalogue)."""
    if world.site("paris").dialect.name == "postgresql":
        tables = "SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables"
        return int(world.execute("paris", tables)[0][0])
    (pages,), (page_size,) = (world.execute("paris", f"PRAGMA {name}")[0] for name in ("page_count", "page_size"))
    return int(pages * page_size)


@pytest.mark.parametrize("set_is_known", [False, True], ids=["a new set of sites", "a set that was seen before"])
def test_one_mebibyte_for_64_sites_grows_the_database_by_less_than_1_1_mebibytes(
    world: World, chance: random.Random, *, set_is_known: bool
) -> None:
    paris = world.server("paris", listen=[])
    world.transmit("paris", b"begin", to=SITES if set_is_known else SITES[:1])
    eventually(lambda: paris.status()["log"]["seq"] == 1)
    before = size(world)
    world.transmit("paris", chance.randbytes(MIB), to=SITES)
    eventually(lambda: paris.status()["log"]["seq"] == 2)
    grown = size(world) - before
    print(f"grown by {grown / MIB:.3f} MiB")
    assert 0.9 * MIB < grown < 1.1 * MIB
