"""A sink with entries of one source, and one Spark session for all tests."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

from lr_client.spark import local_session, register
from tests.conftest import NewSite
from tests.lr_client.subscriber.arrivals import Arrivals


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = local_session(memory="512m", log_level="OFF")
    register(session)
    yield session
    session.stop()


@pytest.fixture
def sink(new_site: NewSite) -> Engine:
    return new_site("lima")


@pytest.fixture
def tokyo(sink: Engine) -> Arrivals:
    return Arrivals(sink)
