"""One Spark session for all, and what the processes of a fault run need."""

from collections.abc import Iterator
from typing import Any

import pytest

from lr_client.spark import local_session
from tests.faults import conftest as faults

folder, seed, plan, process = faults.folder, faults.seed, faults.plan, faults.process


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = local_session(memory="512m", log_level="OFF")
    yield session
    session.stop()
