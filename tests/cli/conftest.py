"""A site to look into: its application, its ticks, its sessions."""

import pytest
from sqlalchemy import Engine

from tests.cli.source import SourceSite


@pytest.fixture
def source(site: Engine) -> SourceSite:
    """Give site `paris` as a source without a server."""
    return SourceSite(site)
