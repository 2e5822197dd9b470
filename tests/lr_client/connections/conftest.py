"""Django's settings, for tests with Django's connections and no project."""

import pytest

from tests.lr_client.connections.applications import configure_django


@pytest.fixture
def settings_of_django() -> None:
    """Configure Django once for the process."""
    configure_django()
