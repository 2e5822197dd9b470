"""A migration works on the tables that stand: in their schema, and as their owner if it may."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, Engine, make_url, text

import queues
from queues.database import migrations

EARLIER = "0018"
SETTINGS = ("role", "search_path", "lock_timeout")


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def engine(new_database: Callable[[], str]) -> Iterator[Engine]:
    made = queues.create_engine(new_database())
    yield made
    made.dispose()


@pytest.fixture
def owner(engine: Engine) -> Iterator[str]:
    """Give the role that owns the tables of an earlier schema."""
    name = f"owner_{engine.url.database}"
    with engine.begin() as connection:
        connection.execute(text(f"CREATE ROLE {name}"))
        connection.execute(text(f"GRANT CREATE ON SCHEMA public TO {name}"))
        connection.execute(text(f"SET LOCAL ROLE {name}"))
        queues.upgrade(connection, site_id="paris", revision=EARLIER)
    yield name
    with engine.begin() as connection:
        connection.execute(text(f"DROP OWNED BY {name} CASCADE"))
        connection.execute(text(f"DROP ROLE {name}"))


def places(connection: Connection, column: str) -> set[str]:
    """Return the owners or the schemas of all relations and functions of lrq."""
    objects = {"pg_class": "rel", "pg_proc": "pro"}
    found = (
        connection.execute(text(f"SELECT DISTINCT {kind}{column}::text FROM {table} WHERE {kind}name LIKE 'lrq%'"))
        for table, kind in objects.items()
    )
    return {name for each in found for name in each.scalars()}


def test_a_superuser_migrates_for_the_owner_of_the_tables(engine: Engine, owner: str) -> None:
    queues.initialize(engine, site_id="paris")
    migrations.check(engine)
    with engine.connect() as connection:
        assert places(connection, "owner::regrole") == {owner}


def test_a_member_of_the_owner_migrates_for_the_owner(engine: Engine, owner: str) -> None:
    member = f"member_{engine.url.database}"
    with engine.begin() as connection:
        connection.execute(text(f"CREATE ROLE {member} LOGIN IN ROLE {owner}"))
    other = queues.create_engine(engine.url.set(username=member))
    queues.initialize(other, site_id="paris")
    other.dispose()
    with engine.begin() as connection:
        connection.execute(text(f"DROP ROLE {member}"))
        assert places(connection, "owner::regrole") == {owner}


def test_the_callers_role_comes_back_after_an_upgrade(engine: Engine, owner: str) -> None:
    with engine.begin() as connection:
        role, path = (connection.execute(text(f"SHOW {name}")).scalar_one() for name in ("role", "search_path"))
        queues.upgrade(connection, site_id="paris")
        assert (role, path) == tuple(
            connection.execute(text(f"SHOW {name}")).scalar() for name in ("role", "search_path")
        )


def test_a_superuser_migrates_as_itself_where_the_owner_lacks_a_right(engine: Engine, owner: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(f"REVOKE CREATE ON SCHEMA public FROM {owner}"))
    queues.initialize(engine, site_id="paris")
    migrations.check(engine)


def test_a_superuser_migrates_as_itself_where_tables_have_other_owners(engine: Engine, owner: str) -> None:
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE lrq_servers OWNER TO CURRENT_USER"))
    queues.initialize(engine, site_id="paris")
    migrations.check(engine)


def test_new_tables_stand_in_the_schema_of_the_others(engine: Engine, owner: str) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA earlier_in_the_path"))
    path = "-csearch_path=earlier_in_the_path,public"
    other = queues.create_engine(make_url(str(engine.url)).update_query_dict({"options": path}))
    queues.initialize(other, site_id="paris")
    other.dispose()
    with engine.connect() as connection:
        assert places(connection, "namespace::regnamespace") == {"public"}
