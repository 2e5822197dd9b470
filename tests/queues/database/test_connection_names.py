"""The names of connections."""

import pytest

from queues.database.connection_names import connection_name


@pytest.mark.parametrize(
    ("site", "name"),
    [("paris", "lrq paris server"), (None, "lrq server"), ("x" * 64, f"lrq {'x' * 52} server")],
)
def test_a_name_tells_site_and_role(site: str | None, name: str):
    assert connection_name(site, "server") == name


def test_the_role_stays_in_the_63_bytes_that_postgresql_keeps():
    name = connection_name("é" * 64, "control")
    assert len(name.encode()) <= 63
    assert name.endswith("é control")
