"""One Spark session for all tests of a process, and a table for snapshots."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, text

from lr_client.spark import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = local_session(memory="512m", log_level="OFF")
    yield session
    session.stop()


@pytest.fixture
def airports(site: Engine) -> Engine:
    with site.begin() as connection:
        blob = "BYTEA" if site.dialect.name == "postgresql" else "BLOB"
        connection.execute(
            text(
                "CREATE TABLE airports (id INTEGER PRIMARY KEY, name TEXT, height REAL, opened DATE, big BOOLEAN,"
                f" budget NUMERIC(10, 2), changed TIMESTAMP, plan {blob})"
            )
        )
        connection.execute(
            text(
                "INSERT INTO airports VALUES (:id, :name, 1.5, '2020-02-29', :big, 12.25,"
                " '2024-01-02 03:04:05.000006', :plan)"
            ),
            [{"id": n * 3, "name": f"n{n}", "big": n % 2 == 0, "plan": b"\x00\xff"} for n in range(1, 1001)],
        )
    return site
