"""The tables of lrq in a schema of their own: engines find them, and the application's names come first."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, NullPool, create_engine, make_url, text

import queues
from lr_client import RoutingQueueSenderClient
from queues.database import migrations, urls
from queues.database.postgresql import rights
from queues.database.schemas import checked_schema, in_schema, schema_of
from queues.errors import ConfigurationError, NotInitializedError, WrongSiteError

STRANGE = 'Lo"g 100%'


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["lrq", STRANGE])
def schema(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def engine(new_database: Callable[[], str], schema: str):
    made = queues.create_engine(new_database(), schema=schema)
    yield made
    made.dispose()


@pytest.fixture
def plain(engine: Engine):
    """Give an engine of the application's own over the same database."""
    url = make_url(engine.url).difference_update_query(["lrq_schema"])
    made = create_engine(url, poolclass=NullPool)
    yield made
    made.dispose()


def schemas_with_tables(engine: Engine) -> dict[str, int]:
    query = text(
        "SELECT nspname, count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE relname LIKE 'lrq%' AND relkind IN ('r', 'p', 'S') GROUP BY nspname"
    )
    with engine.connect() as connection:
        return dict(connection.execute(query).all())


def has_schema(engine: Engine, schema: str) -> bool:
    with engine.connect() as connection:
        return (
            connection.execute(text("SELECT 1 FROM pg_namespace WHERE nspname = :n"), {"n": schema}).first() is not None
        )


def test_initialize_creates_all_tables_in_the_schema_of_the_engine(engine: Engine, schema: str):
    site = queues.initialize(engine, site_id="paris")
    assert site == migrations.check(engine) == queues.initialize(engine, site_id="paris")
    assert set(schemas_with_tables(engine)) == {schema}


def test_an_engine_of_the_application_can_create_them_too(plain: Engine, engine: Engine, schema: str):
    site = queues.initialize(plain, site_id="paris", schema=schema)
    assert site == queues.initialize(plain, site_id="paris", schema=schema) == migrations.check(engine)
    assert set(schemas_with_tables(engine)) == {schema}
    with pytest.raises(WrongSiteError):
        queues.initialize(plain, site_id="tokyo", schema=schema)


def test_upgrade_keeps_the_callers_search_path(plain: Engine, engine: Engine, schema: str):
    with plain.begin() as connection:
        before = connection.execute(text("SHOW search_path")).scalar_one()
        queues.upgrade(connection, site_id="paris", schema=schema)
        assert connection.execute(text("SHOW search_path")).scalar_one() == before
        connection.execute(text("CREATE TABLE rules (id INTEGER)"))
    migrations.check(engine)
    with plain.connect() as connection:
        assert connection.execute(text("SELECT 'public.rules'::regclass IS NOT NULL")).scalar_one()


def test_names_of_the_application_come_first(engine: Engine, schema: str):
    queues.initialize(engine, site_id="paris")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE public.twice AS SELECT 'application' AS name"))
        quoted = rights.quoted(schema)
        connection.execute(text(f"CREATE TABLE {quoted}.twice AS SELECT 'lrq' AS name"))
        assert connection.execute(text("SELECT name FROM twice")).scalar_one() == "application"
        connection.execute(text("CREATE TABLE mine (id INTEGER)"))
        assert connection.execute(text("SELECT 'public.mine'::regclass::text")).scalar_one() == "mine"


def test_a_search_path_of_the_database_is_extended(engine: Engine, plain: Engine, schema: str):
    queues.initialize(engine, site_id="paris")
    name = engine.url.database
    for path in ("pg_catalog, information_schema", "''"):
        with plain.begin() as connection:
            connection.execute(text(f'ALTER DATABASE "{name}" SET search_path = {path}'))
        engine.dispose()
        migrations.check(engine, site_id="paris")


def test_a_search_path_without_a_schema_leaves_no_place_for_the_tables(new_database: Callable[[], str]):
    url = make_url(new_database()).update_query_dict({"options": "-csearch_path=nowhere"})
    engine = queues.create_engine(url)
    with pytest.raises(ConfigurationError, match="names no schema that exists"):
        queues.initialize(engine, site_id="paris")
    engine.dispose()
    with_schema = queues.create_engine(url, schema="lrq")
    queues.initialize(with_schema, site_id="paris")
    with_schema.dispose()


def test_downgrade_drops_the_schema_only_if_it_is_empty(engine: Engine, schema: str):
    queues.initialize(engine, site_id="paris")
    with engine.begin() as connection:
        queues.downgrade(connection)
    assert not has_schema(engine, schema)
    queues.initialize(engine, site_id="paris")
    quoted = rights.quoted(schema)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE {quoted}.of_another (id INTEGER)"))
        queues.downgrade(connection)
    assert schemas_with_tables(engine) == {}
    with engine.connect() as connection:
        assert connection.execute(text(f"SELECT count(*) FROM {quoted}.of_another")).scalar_one() == 0


def test_a_rollback_leaves_no_schema(engine: Engine, schema: str):
    with engine.connect() as connection:
        queues.upgrade(connection, site_id="paris")
        connection.rollback()
    assert not has_schema(engine, schema)


def test_a_connection_that_does_not_see_the_schema_is_told_where_the_tables_are(
    plain: Engine, engine: Engine, schema: str
):
    queues.initialize(engine, site_id="paris")
    client = RoutingQueueSenderClient("policy")
    for attempt in (
        lambda connection: migrations.require(connection),
        lambda connection: client.transmit_log_entry_message(connection, b"1", ["tokyo"]),
    ):
        with plain.connect() as connection, pytest.raises(NotInitializedError) as caught:
            attempt(connection)
        assert f"in schema {schema!r}, which this connection does not see" in str(caught.value)
    with engine.begin() as connection:
        client.transmit_log_entry_message(connection, b"1", ["tokyo"])


def test_a_role_without_a_right_on_the_schema_is_told_so(engine: Engine, schema: str):
    queues.initialize(engine, site_id="paris")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE ROLE nobody_{engine.url.database}"))
        connection.execute(text(f"SET ROLE nobody_{engine.url.database}"))
        with pytest.raises(ConfigurationError, match="which the database role may not use: run `lrq grant`"):
            migrations.require(connection)
        connection.rollback()


def test_a_forgotten_schema_makes_no_second_tables_which_would_hide_the_entries_of_the_first(
    plain: Engine, engine: Engine, schema: str
):
    queues.initialize(engine, site_id="paris")
    with plain.connect() as connection:
        for attempt in (
            lambda: queues.initialize(plain, site_id="paris"),
            lambda: queues.upgrade(connection, site_id="paris"),
        ):
            with pytest.raises(NotInitializedError, match="which this connection does not see: set `schema`"):
                attempt()
    assert set(schemas_with_tables(engine)) == {schema}


def test_the_url_of_an_engine_finds_the_tables_in_another_process(engine: Engine):
    queues.initialize(engine, site_id="paris")
    copied = queues.create_engine(engine.url.render_as_string(hide_password=False))
    assert migrations.check(copied).site_id == "paris"
    copied.dispose()


def test_the_ddl_names_the_schema_and_a_dba_can_remove_the_tables(engine: Engine, plain: Engine, schema: str):
    with plain.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        driver = connection.connection.driver_connection
        driver.execute(migrations.ddl("postgresql", schema=schema))
        queues.initialize(engine, site_id="paris")
        migrations.check(engine)
        driver.execute(migrations.removal("postgresql", schema=schema))
    assert not has_schema(engine, schema)


def test_the_url_and_the_argument_must_agree():
    url = make_url("postgresql+psycopg://db/paris?lrq_schema=lrq")
    assert in_schema(url, "lrq") == in_schema(url, None) == url
    assert schema_of(in_schema(make_url("postgresql+psycopg://db/paris"), "lrq")) == "lrq"
    with pytest.raises(ConfigurationError, match="names the schema 'lrq', but `schema` is 'other'"):
        in_schema(url, "other")


@pytest.mark.parametrize("wrong", ["", "pg_lrq", "x" * 64, "a\0b", 7])
def test_a_malformed_schema_is_refused(wrong: object):
    with pytest.raises(ConfigurationError, match="schema"):
        checked_schema(wrong)


def test_sqlite_has_no_schemas():
    with pytest.raises(ConfigurationError, match="SQLite has no schemas: remove `schema`"):
        queues.create_engine("sqlite:///paris.db", schema="lrq")
    with pytest.raises(ConfigurationError, match="SQLite has no schemas"):
        urls.with_schema(make_url("sqlite:///paris.db?lrq_schema=lrq"), None)
    engine = create_engine("sqlite://")
    with pytest.raises(ConfigurationError, match="SQLite has no schemas"):
        queues.initialize(engine, site_id="paris", schema="lrq")
    with engine.connect() as connection, pytest.raises(ConfigurationError, match="SQLite has no schemas"):
        queues.upgrade(connection, site_id="paris", schema="lrq")
    engine.dispose()
