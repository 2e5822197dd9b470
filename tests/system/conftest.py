"""Sites with servers, in this process."""

import os
import random
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


@pytest.fixture
def chance() -> random.Random:
    """Give chance with a seed that is printed where the test fails; LRQ_TEST_SEED repeats it."""
    seed = int(os.environ.get("LRQ_TEST_SEED") or random.SystemRandom().randrange(10**6))
    print(f"seed {seed}")
    return random.Random(seed)
