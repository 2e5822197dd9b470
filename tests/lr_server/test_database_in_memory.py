"""A server with a database in memory is refused in one sentence."""

import pytest

from lr_server import LogReplicationServer, Settings
from queues.errors import ConfigurationError


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&cache=shared&uri=true"]
)
def test_a_server_needs_a_file(url: str) -> None:
    with pytest.raises(ConfigurationError, match="name a file, such as sqlite:///paris"):
        LogReplicationServer(Settings(site_id="paris", database_url=url))
