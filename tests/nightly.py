"""Tests that only `make nightly` runs on a database, since `make test` runs them on the other one."""

import pytest

#: Costly tests of processes, whose way to the database other tests check on both.
SQLITE_NIGHTLY = pytest.mark.parametrize(
    "dialect", [pytest.param("sqlite", marks=pytest.mark.nightly), "postgresql"], indirect=True
)
