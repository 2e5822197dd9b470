"""Fixtures of the queues' tests: the lease of a site's server, and a reader of its log."""

import pytest
from sqlalchemy import Engine

from queues.database import leases
from queues.database.leases import Lease
from tests.queues.reading import Reader


@pytest.fixture
def lease(site: Engine) -> Lease:
    got = leases.acquire(site, "server", "me", ttl=60)
    assert got is not None
    return got


@pytest.fixture
def reader(site: Engine, lease: Lease) -> Reader:
    return Reader(site, lease)
