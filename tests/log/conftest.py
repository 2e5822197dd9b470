"""A lease and the log of a site."""

import pytest
from sqlalchemy import Engine

from queues import leases
from queues.leases import Lease
from tests.log.reading import Reader


@pytest.fixture
def lease(site: Engine) -> Lease:
    got = leases.acquire(site, "server", "me", ttl=60)
    assert got is not None
    return got


@pytest.fixture
def reader(site: Engine, lease: Lease) -> Reader:
    return Reader(site, lease)
