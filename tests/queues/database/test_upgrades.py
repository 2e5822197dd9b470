"""`queues.upgrade` and `queues.downgrade` work inside the caller's transaction, on connections of every kind."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, NullPool, create_engine, inspect, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

import queues
from queues.database import migrations, schema
from queues.errors import (
    InvalidNameError,
    NotInTransactionError,
    SchemaMismatchError,
    UsageError,
    WrongSiteError,
)

NewDatabase = Callable[[], str]

#: Every object whose name begins with lrq: tables, sequences, views, indexes and functions.
OBJECTS = {
    "sqlite": "SELECT name FROM sqlite_master WHERE name LIKE '%lrq%'",
    "postgresql": "SELECT relname FROM pg_class WHERE relname LIKE '%lrq%' UNION ALL "
    "SELECT proname FROM pg_proc WHERE proname LIKE '%lrq%' UNION ALL "
    "SELECT typname FROM pg_type WHERE typname LIKE '%lrq%' UNION ALL "
    "SELECT tgname FROM pg_trigger WHERE tgname LIKE '%lrq%'",
}


@pytest.fixture(params=["lrq", "plain"])
def engine(request: pytest.FixtureRequest, new_database: NewDatabase):
    make = queues.create_engine if request.param == "lrq" else create_engine
    made = make(new_database())
    yield made
    made.dispose()


@pytest.fixture
def plain(new_database: NewDatabase):
    made = create_engine(new_database(), poolclass=NullPool)
    yield made
    made.dispose()


def ours_in(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return sorted(connection.execute(text(OBJECTS[engine.dialect.name])).scalars())


def tables_in(engine: Engine) -> set[str]:
    with engine.connect() as connection:
        return set(inspect(connection).get_table_names())


def test_upgrade_creates_the_tables_that_initialize_creates(engine: Engine):
    with engine.begin() as connection:
        found = queues.upgrade(connection, site_id="paris")
    assert found == migrations.check(engine, site_id="paris") == queues.initialize(engine, site_id="paris")


def test_a_session_of_sqlalchemy_will_do(engine: Engine):
    with Session(engine) as session:
        queues.upgrade(session, site_id="paris")
        session.commit()
    migrations.check(engine, site_id="paris")


def test_upgrade_commits_nothing(engine: Engine):
    with engine.connect() as connection:
        queues.upgrade(connection, site_id="paris")
        assert connection.in_transaction()
        connection.rollback()
    assert ours_in(engine) == []


def test_a_rollback_takes_the_applications_later_changes_along(engine: Engine):
    with engine.connect() as connection:
        queues.upgrade(connection, site_id="paris")
        connection.execute(text("CREATE TABLE rules (id INTEGER PRIMARY KEY)"))
        connection.execute(text("INSERT INTO rules VALUES (1)"))
        connection.rollback()
    assert tables_in(engine) == set()


def test_upgrade_may_be_repeated_in_one_transaction_and_in_the_next(engine: Engine):
    with engine.begin() as connection:
        first = queues.upgrade(connection, site_id="paris")
        assert queues.upgrade(connection, site_id="paris") == first
    with engine.begin() as connection:
        assert queues.upgrade(connection, site_id="paris") == first


def test_a_site_is_established_only_at_the_newest_schema(engine: Engine):
    with engine.begin() as connection:
        assert queues.upgrade(connection, site_id="paris", revision="0002") is None
        assert schema.version(connection) == "0002"
    with engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM lrq_site")).scalar_one() == 0
        assert queues.upgrade(connection, site_id="paris", revision="+1") is None
        assert queues.upgrade(connection, site_id="paris").site_id == "paris"
    migrations.check(engine)


def test_downgrade_leaves_no_object_of_lrq_and_the_applications_tables(engine: Engine):
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE rules (id INTEGER PRIMARY KEY)"))
        queues.upgrade(connection, site_id="paris")
    with engine.begin() as connection:
        queues.downgrade(connection)
        queues.downgrade(connection)
    assert ours_in(engine) == []
    assert tables_in(engine) == {"rules"}
    with engine.begin() as connection:
        queues.upgrade(connection, site_id="tokyo")
    migrations.check(engine, site_id="tokyo")


def test_downgrade_commits_nothing(engine: Engine):
    queues.initialize(engine, site_id="paris")
    with engine.connect() as connection:
        queues.downgrade(connection)
        connection.rollback()
    migrations.check(engine, site_id="paris")


def test_downgrade_may_stop_at_an_older_schema(engine: Engine):
    queues.initialize(engine, site_id="paris")
    with engine.begin() as connection:
        queues.downgrade(connection, revision="0011")
        assert schema.version(connection) == "0011"
    with engine.begin() as connection:
        queues.upgrade(connection, site_id="paris")
    migrations.check(engine, site_id="paris")


def test_the_caller_keeps_the_lock_timeout(engine: Engine):
    if engine.dialect.name != "postgresql":
        pytest.skip("SQLite has no such setting")
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL lock_timeout = '7s'"))
        queues.upgrade(connection, site_id="paris")
        assert connection.execute(text("SHOW lock_timeout")).scalar_one() == "7s"


def test_simultaneous_transactions_agree_on_one_branch(engine: Engine):
    start = threading.Barrier(4)

    def migrate(_: int) -> str:
        made = create_engine(engine.url, poolclass=NullPool)
        with made.begin() as connection:
            start.wait()
            return queues.upgrade(connection, site_id="paris").branch

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(migrate, range(4)))) == 1


# --- misuse ---------------------------------------------------------------------------------------------------------


def test_a_wrong_site_is_refused_before_any_change(engine: Engine):
    queues.initialize(engine, site_id="paris")
    with engine.begin() as connection:
        queues.downgrade(connection, revision="0011")
    with engine.connect() as connection:
        with pytest.raises(WrongSiteError, match="belongs to site 'paris', not to 'tokyo'"):
            queues.upgrade(connection, site_id="tokyo")
        assert schema.version(connection) == "0011"
    with engine.connect() as connection, pytest.raises(InvalidNameError):
        queues.upgrade(connection, site_id="no/slash")


def test_an_unknown_revision_is_refused(engine: Engine):
    with engine.connect() as connection, pytest.raises(UsageError, match="cannot go to '4711'"):
        queues.upgrade(connection, site_id="paris", revision="4711")
    assert ours_in(engine) == []


def test_tables_of_a_newer_lrq_cannot_be_removed(engine: Engine):
    queues.initialize(engine, site_id="paris")
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'"))
        assert queues.upgrade(connection, site_id="paris").site_id == "paris"
        with pytest.raises(SchemaMismatchError, match="cannot undo: use the lrq that made them"):
            queues.downgrade(connection)


def test_an_engine_is_refused(plain: Engine):
    with pytest.raises(UsageError, match="pass a connection of the engine, or call "):
        queues.upgrade(plain, site_id="paris")
    with pytest.raises(UsageError, match="pass a connection of the engine"):
        queues.downgrade(plain)


@pytest.mark.parametrize("wrong", [None, "sqlite:///paris.db", object()])
def test_another_object_is_refused(wrong: object):
    with pytest.raises(UsageError, match=r"needs a connection of SQLAlchemy or Django, not an? "):
        queues.upgrade(wrong, site_id="paris")


def test_a_connection_in_autocommit_is_refused(plain: Engine):
    autocommitting = plain.execution_options(isolation_level="AUTOCOMMIT")
    with autocommitting.connect() as connection, pytest.raises(NotInTransactionError, match="begin a transaction"):
        queues.upgrade(connection, site_id="paris")
    assert ours_in(plain) == []


# --- asynchronous connections ---------------------------------------------------------------------------------------

ASYNC_DRIVERS = {"sqlite": ["sqlite+aiosqlite"], "postgresql": ["postgresql+psycopg", "postgresql+asyncpg"]}


async def _migrate_and_return(url: str) -> None:
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.connect() as connection:
        await connection.run_sync(queues.upgrade, site_id="paris")
        await connection.rollback()
    async with engine.begin() as connection:
        assert (await connection.run_sync(queues.upgrade, site_id="paris")).site_id == "paris"
        with pytest.raises(UsageError, match=r"write `await connection.run_sync\(queues.upgrade, ...\)`"):
            queues.upgrade(connection, site_id="paris")
    async with engine.connect() as connection:
        autocommitting = await connection.execution_options(isolation_level="AUTOCOMMIT")
        with pytest.raises(NotInTransactionError):
            await autocommitting.run_sync(queues.downgrade)
    await engine.dispose()


async def _remove(url: str) -> None:
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.run_sync(queues.downgrade)
    await engine.dispose()


def test_asynchronous_connections_migrate_and_return(plain: Engine):
    for driver in ASYNC_DRIVERS[plain.dialect.name]:
        url = plain.url.set(drivername=driver).render_as_string(hide_password=False)
        asyncio.run(_migrate_and_return(url))
        migrations.check(plain, site_id="paris")
        asyncio.run(_remove(url))
        assert ours_in(plain) == []
