"""Sites and their servers, all in this process."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import NewSite
from tests.system.world import World


@pytest.fixture
def world(new_site: NewSite) -> Iterator[World]:
    """Give an empty world of sites; its contents are closed after the test, last opened first."""
    with ExitStack() as stack:
        world = World(new_site, stack)
        yield world
        print(world.report())
