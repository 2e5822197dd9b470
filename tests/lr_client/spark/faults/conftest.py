"""Fixtures of the fault tests: one Spark session for all of them, and worlds of sites."""

from collections.abc import Iterator
from typing import Any

import pytest

from lr_client.spark import local_session
from tests.faults import conftest as faults
from tests.system import conftest as system

folder, seed, plan, process = faults.folder, faults.seed, faults.plan, faults.process
world = system.world


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = local_session(memory="512m", log_level="OFF")
    yield session
    session.stop()
