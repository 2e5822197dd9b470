"""`transmitted` reads on each kind of connection on which an application transmits."""

import sqlite3
import unittest
from typing import Any

import pytest
from sqlalchemy import Engine

from lrq.testing import Transmitted, transmitted
from queues.errors import NotInitializedError, UsageError
from tests.lr_client.connections.applications import (
    ASYNCHRONOUS,
    POSTGRESQL,
    SQLITE,
    Application,
    Open,
    client,
    configure_django,
    django_alias,
    run,
)

KINDS = [(name, open_, "sqlite") for name, open_ in SQLITE.items()]
KINDS += [(name, open_, "postgresql") for name, open_ in POSTGRESQL.items()]
#: Asynchronous sessions of SQLAlchemy run the look themselves.
RUN_SYNC = [kind for kind in KINDS if kind[0].startswith(("AsyncSession", "AsyncConnection-a"))]
SYNCHRONOUS = [kind for kind in KINDS if kind[1] not in ASYNCHRONOUS]


def of(kinds: list[Any]) -> Any:
    values = [pytest.param(open_, dialect, id=f"{name}-{dialect}") for name, open_, dialect in kinds]
    return pytest.mark.parametrize(("open_", "dialect"), values, indirect=["dialect"])


@pytest.fixture(autouse=True)
def django() -> None:
    configure_django()


@of(SYNCHRONOUS)
def test_the_entries_of_the_transaction_are_shown(site: Engine, open_: Open):
    async def scenario(application: Application) -> None:
        assert transmitted(application.given) == []
        async with application.transaction():
            await application.transmit(b"committed")
        assert transmitted(application.given) == []
        async with application.transaction():
            async with application.savepoint():
                await application.transmit(b"1", ("tokyo", "lima"), item_key="a", partition_key="b", headers={"c": "d"})
            async with application.savepoint(fails=True):
                await application.transmit(b"2")
            await application.transmit(b"3")
            assert transmitted(application.given) == [
                Transmitted("policy", ("lima", "tokyo"), b"1", "a", "b", {"c": "d"}),
                Transmitted("policy", ("tokyo",), b"3"),
            ]
        async with application.transaction(fails=True):
            await application.transmit(b"4")
        assert transmitted(application.given) == []

    run(open_, site, scenario)


@of(RUN_SYNC)
def test_an_asynchronous_connection_of_sqlalchemy_runs_the_look(site: Engine, open_: Open):
    async def scenario(application: Application) -> None:
        async with application.transaction():
            await application.transmit(b"1")
            assert await application.given.run_sync(transmitted) == [Transmitted("policy", ("tokyo",), b"1")]
            with pytest.raises(UsageError, match="asynchronous"):
                transmitted(application.given)

    run(open_, site, scenario)


@of([kind for kind in KINDS if kind[0] in ("aiosqlite", "asyncpg", "AsyncConnection-of-psycopg")])
def test_an_asynchronous_connection_of_a_driver_is_refused(site: Engine, open_: Open):
    async def scenario(application: Application) -> None:
        with pytest.raises(UsageError, match="is asynchronous"):
            transmitted(application.given)

    run(open_, site, scenario)


def test_each_test_of_a_django_test_case_lists_its_own_entries(site: Engine):
    from django.db import connections, transaction
    from django.test import TestCase

    with django_alias(site) as alias:

        class Application(TestCase):
            databases = frozenset({alias})

            def send(self, payload: bytes) -> None:
                assert transmitted(connections[alias]) == []
                with transaction.atomic(using=alias):
                    client.transmit_log_entry_message(connections[alias], payload, ["tokyo"])
                assert [entry.payload for entry in transmitted(connections[alias])] == [payload]

            def test_first(self) -> None:
                self.send(b"1")

            def test_second(self) -> None:
                self.send(b"2")

        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(Application).run(result)
        assert (result.testsRun, result.errors, result.failures) == (2, [], [])


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_database_without_tables_is_named(tmp_path: Any, dialect: str):
    connection = sqlite3.connect(tmp_path / "empty.db")
    connection.execute("BEGIN")
    with pytest.raises(NotInitializedError, match="lrq init"):
        transmitted(connection)
    connection.close()
