"""The rollback-per-test habit: one database for all tests, and each test's transaction is rolled back."""

from collections.abc import Iterator

import pytest
from rules import Base
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from lrq.testing import site


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Give the database of site paris, with the tables of lrq and those of the application."""
    with site("paris") as paris:
        Base.metadata.create_all(paris.engine)
        yield paris.engine


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    """Give a session whose commits end only savepoints; the test's own transaction is rolled back."""
    with engine.connect() as connection:
        outer = connection.begin()
        with Session(bind=connection, join_transaction_mode="create_savepoint") as opened:
            yield opened
        outer.rollback()
