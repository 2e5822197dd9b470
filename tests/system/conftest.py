"""Sites with servers, in this process."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import NewSite
from tests.system.world import World


@pytest.fixture
def world(new_site: NewSite) -> Iterator[World]:
    """Give a world of sites; everything in it is closed at the end, last opened first."""
    with ExitStack() as stack:
        world = World(new_site, stack)
        yield world
        print(world.report())
