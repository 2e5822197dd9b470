"""The statistics of PostgreSQL, told at once and not some time after the transaction."""

import pytest
from sqlalchemy import Connection, text


def tell_statistics(connection: Connection) -> None:
    """Let the end of the transaction tell the statistics of its connection; PostgreSQL 14 cannot, so skip the test."""
    if (connection.dialect.server_version_info or ()) < (15,):
        pytest.skip("PostgreSQL 14 tells its statistics late")
    connection.execute(text("SELECT pg_stat_force_next_flush()"))
